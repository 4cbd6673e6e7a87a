import json
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph._base.provenance import CHANGED, UNKNOWN, code_commit, commit_of, install_command, versions
from dph._base.randomness import generator, uniforms


def git(directory, *words):
    words = ["git", "-C", directory, "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_a_checkout_is_at_its_commit_and_says_when_it_was_changed(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("x = 1\n")
    for words in ("init -q", "add .", "commit -qm one"):
        git(tmp_path, *words.split())
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "outside.txt").write_text("not of the package")
    assert commit_of(package) == commit
    (package / "module.py").write_text("x = 2\n")
    assert commit_of(package) == commit + CHANGED


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (
            {"url": "file:///my%20code/dph", "dir_info": {"editable": True}},
            "-e '/my code/dph[math]'",
        ),
        ({"url": "file:///code/dph", "dir_info": {}}, "'/code/dph[math]'"),
        ({"url": "file:///d/dph_rl-1.whl", "archive_info": {}}, "'/d/dph_rl-1.whl[math]'"),
        ({"url": "https://a.org/dph_rl-1.whl", "archive_info": {}}, "'dph-rl[math]'"),
        (None, "'dph-rl[math]'"),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(tmp_path, monkeypatch, recorded, command):
    folder = tmp_path / "dph_rl-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: dph-rl\nVersion: 1.0\n")
    if recorded is not None:
        (folder / "direct_url.json").write_text(json.dumps(recorded))
    monkeypatch.syspath_prepend(tmp_path)
    assert distribution("dph-rl").version == "1.0"
    assert install_command("math") == f"pip install {command}"


def test_a_package_that_is_only_found_comes_from_its_checkout(monkeypatch):
    monkeypatch.setattr("sys.path", [])
    assert install_command() == f"pip install -e '{Path(__file__).parents[2]}'"
    assert install_command("web", "dph-corpus") == "pip install 'dph-corpus[web]'"


def test_outside_a_checkout_it_is_not_known(tmp_path):
    assert commit_of(tmp_path) == UNKNOWN
    hexadecimal = code_commit().removesuffix(CHANGED)
    assert hexadecimal == UNKNOWN or len(hexadecimal) == 40


def test_versions_name_what_decides_numbers():
    said = versions("AVX2")
    for name in ("python 3", "torch 2", "transformers ", "tokenizers ", "numpy ", "dph-rl "):
        assert name in said
    assert said.endswith("AVX2")


def test_numbers_lie_in_the_half_open_unit_interval_and_have_the_moments_of_a_uniform():
    drawn = np.concatenate(
        [uniforms(seed=0, problem_id=f"p{i}", sample_index=0, count=50) for i in range(200)]
    )
    assert drawn.dtype == np.float64
    assert drawn.min() >= 0
    assert drawn.max() < 1
    # Five standard errors of the mean (sd 1/sqrt 12) and of the mean square (sd sqrt 4/45).
    assert abs(drawn.mean() - 1 / 2) < 5 * (1 / 12) ** 0.5 / 100
    assert abs((drawn**2).mean() - 1 / 3) < 5 * (4 / 45) ** 0.5 / 100


@given(st.integers(0, 2**63), st.text(), st.integers(0, 10**6), st.integers(0, 30))
def test_a_longer_draw_only_adds_numbers_at_the_end(seed, problem_id, index, count):
    key = {"seed": seed, "problem_id": problem_id, "sample_index": index}
    np.testing.assert_array_equal(
        uniforms(**key, count=count), uniforms(**key, count=count + 7)[:count]
    )


def test_every_part_of_the_key_changes_the_numbers_which_are_the_same_on_every_machine():
    base = {"seed": 1, "problem_id": "a", "sample_index": 2}
    keys = [base, base | {"seed": 2}, base | {"problem_id": "b"}, base | {"sample_index": 1}]
    assert len({uniforms(**key, count=1)[0] for key in keys}) == len(keys)
    pairs = [("ab", "c"), ("a", "bc"), ("a", "b", "c"), ("1",), (1,), ()]
    assert len({generator(0, *names).random() for names in pairs}) == len(pairs)
    sample = uniforms(seed=0, problem_id="a", sample_index=0, count=1)[0]
    assert generator(0, "a", 0).random() != sample
    drawn = uniforms(seed=7, problem_id="é", sample_index=3, count=2)
    np.testing.assert_array_equal(drawn, [0.6919732040183958, 0.6503609577914454])
    np.testing.assert_array_equal(
        uniforms(seed=np.int64(7), problem_id="é", sample_index=np.int64(3), count=2), drawn
    )
