import json

import pytest

from finished_runs import *  # noqa: F403
from finished_runs import make_run
from hub_fixtures import *  # noqa: F403


def test_a_card_is_written_and_nothing_is_sent(dph, hub, finished, tmp_path):
    code, out, err = dph("card", finished, "--out", tmp_path / "card.md")
    assert (code, err) == (0, "")
    assert out == f"card: {tmp_path / 'card.md'}\n"
    assert "## Measured" in (tmp_path / "card.md").read_text()
    assert hub.requests == []


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_run_is_pushed_and_its_address_printed(dph, hub, finished, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_loopback")
    code, out, _ = dph("push", finished, "me/words", "--json")
    assert code == 0
    assert json.loads(out)["commit"].startswith(f"{hub.url}/me/words/commit/")
    assert "README.md" in hub.files("me/words")


def test_the_card_of_a_quickstarts_run_has_the_base_beside_it(dph, finished):
    (finished / "base").rename(finished.parent / "base")
    code, _, err = dph("card", finished.parent)
    assert (code, err) == (0, "")
    assert "| Base model | 30.0" in (finished / "README.md").read_text()


def test_a_card_without_a_base_shows_the_run_alone_and_says_so(dph, finished):
    (finished / "base" / "evaluation.json").unlink()
    code, _, err = dph("card", finished)
    card = (finished / "README.md").read_text()
    assert code == 0
    assert "no evaluation of the initial policy org/base" in err
    assert "| GRPO | 40.0" in card
    assert "Base model" not in card


def test_a_directory_of_several_runs_is_asked_for_one(dph, finished):
    other = make_run(finished.parent / "second")
    code, out, err = dph("card", finished.parent)
    assert (code, out) == (2, "")
    assert f"holds 2 runs, name one: {finished}, {other}" in err
