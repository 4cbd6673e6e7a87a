"""Values in Hydra's grammar."""

from pathlib import Path

import pytest

from dph.engines.stages.verl_stage import hydra_value, override


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "null"),
        (True, "true"),
        (1e-08, "1e-08"),
        ("runs/a-b_1.5", "runs/a-b_1.5"),
        (Path("/a b"), "'/a b'"),
        ("", "''"),
        ("true", "'true'"),
        ("12", "'12'"),
        ("a=b", "'a=b'"),
        ("it's", r"'it\'s'"),
        (r"a\'b", r"'a\\\'b'"),
        ("x y\\", r"'x y\\'"),
        ((0.9, "x"), "[0.9, x]"),
    ],
)
def test_a_value_is_written_so_that_it_is_read_as_it_was(value, word):
    assert hydra_value(value) == word


def test_a_table_may_have_keys_that_were_not_there():
    assert override("a.b", {"eps": 1e-08}) == "++a.b={eps: 1e-08}"
    assert override("a.b", 3) == "a.b=3"
