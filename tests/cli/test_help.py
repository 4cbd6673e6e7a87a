"""The help of every verb: what a user reads first."""

import contextlib
import io
import re

import pytest
from typer.main import get_command

from dph.cli.app import SECTIONS, app

ROOT = get_command(app)


def verbs(command, words=()):
    yield words
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from verbs(below, (*words, name))


ALL = list(verbs(ROOT))
GROUPS = [words for words in ALL if not words or any(o[:-1] == words for o in ALL if o)]


def help_of(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        ROOT.main([*words, "--help"], prog_name="dph", standalone_mode=False)
    return out.getvalue()


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_eighty_columns_and_has_no_types_of_python(words):
    text = help_of(words)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(path|str|int|float|bool|boolean|text)>|\{\w+\}|\[default: \(", text)


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_lists_every_verb_in_one_whole_line(words):
    lines = help_of(words).splitlines()
    below = {one[-1] for one in ALL if one and one[:-1] == words}
    listed = {}
    for line in lines:
        found = re.fullmatch(r"  ([a-z-]+) +(\S.*)", line)
        if found and found[1] in below:
            listed[found[1]] = found[2]
    assert listed.keys() == below
    assert all(re.fullmatch(r"[A-Z`].*\.", summary) for summary in listed.values()), listed
    assert not any(summary.endswith("..") for summary in listed.values())


def test_set_is_a_setting_in_every_verb():
    found = [re.findall(r"--set +(\S+) +(.*)", help_of(words)) for words in ALL]
    meanings = {meaning for of_verb in found for meaning in of_verb}
    assert {value for value, _ in meanings} == {"KEY=VALUE"}
    assert all(said.startswith("Override a setting") for _, said in meanings), meanings


def test_the_verbs_stand_in_the_order_in_which_they_are_met():
    text = help_of(())
    places = [text.index(f"\n{section}:\n") for section in SECTIONS]
    assert places == sorted(places)
    assert list(SECTIONS) == ["Start", "Train", "Measure", "Look", "Publish"]


def test_usage_names_arguments_as_manuals_do():
    assert help_of(("show",)).startswith("Usage: dph show [OPTIONS] RUN [OTHER]\n")
    assert help_of(("compare",)).startswith("Usage: dph compare [OPTIONS] RUN...\n")
    assert help_of(("doctor",)).startswith("Usage: dph doctor [OPTIONS] [PART...]\n")
