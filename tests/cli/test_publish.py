import json

import pytest

from finished_runs import *  # noqa: F403
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


@pytest.mark.parametrize("verb", ["card", "push"])
def test_what_is_no_run_is_refused_in_one_line(dph, hub, tmp_path, verb):
    words = [verb, tmp_path / "none", *(["me/words"] if verb == "push" else [])]
    code, out, err = dph(*words)
    assert (code, out) == (2, "")
    assert err.startswith("dph: error: cannot read the recipe")
    assert len(err.splitlines()) == 1
    assert hub.requests == []
