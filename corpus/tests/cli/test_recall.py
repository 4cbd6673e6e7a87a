"""``dph-corpus recall``, as a user calls it: once, then with the answers."""

import json

import pytest

from corpus.tests.recall.planted_pages import pages, seeds
from dph_corpus.cli import main


@pytest.fixture
def words(tmp_path):
    """The command; pages and seeds are files of rows."""
    for name, found in (("pages", pages(each=30)[0]), ("seeds", seeds(40))):
        rows = ({"id": one.id, "text": one.text, "url": one.url} for one in found)
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    places = ["--input", str(tmp_path / "pages.jsonl"), "--seeds", str(tmp_path / "seeds.jsonl")]
    numbers = ["--workers", "1", "--vocabulary", "600"]
    return ["recall", *places, "--out", str(tmp_path / "out"), *numbers]


def test_the_first_run_asks_and_the_second_goes_on_with_the_answers(words, tmp_path, capsys):
    assert main(words) == 0
    review = tmp_path / "out" / "url_patterns.csv"
    assert f"answer {review} and pass it with --patterns" in capsys.readouterr().out
    review.write_text(review.read_text().replace("/questions/%,,", "/questions/%,yes,"))
    assert main([*words, "--patterns", str(review), "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["stage"] == "recall"
    rounds = json.loads((tmp_path / "out" / "rounds.json").read_text())["rounds"]
    assert len(rounds) >= 2
    assert manifest["documents"] == rounds[-1]["by_score"] + rounds[-1]["by_url"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--threshold", "1.5"], "the threshold must lie in (0, 1), got 1.5"),
        (["--classifier", "bayes"], "fasttext"),
        (["--patterns", "missing.csv"], "missing.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, tmp_path, capsys, more, message):
    assert main([*words, *more]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
