"""Tables of cases that lie next to the tests as TOML."""

import tomllib
from pathlib import Path

import pytest


def table(place):
    """The tables in the file ``place`` below the tests."""
    return tomllib.loads((Path(__file__).parent / place).read_text(encoding="utf-8"))


def each(names, rows):
    """A test for each row of a table, with its name."""
    return pytest.mark.parametrize(names, rows.values(), ids=rows)
