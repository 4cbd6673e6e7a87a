"""``dph-corpus recall``, as a user calls it."""

import json

from corpus.tests.recall.planted_pages import pages, seeds
from dph_corpus.cli import main
from small_corpora import small_corpus


def test_the_first_run_asks_for_answers_and_a_missing_file_of_them_is_bad_input(tmp_path, capsys):
    small_corpus(tmp_path / "pages", pages(each=20)[0])
    small_corpus(tmp_path / "seeds", seeds(40))
    places = ["--input", str(tmp_path / "pages"), "--seeds", str(tmp_path / "seeds")]
    words = ["recall", *places, "--out", str(tmp_path / "out"), "--workers", "1"]
    words += ["--vocabulary", "600"]
    assert main([*words, "--patterns", str(tmp_path / "missing.csv")]) == 2
    assert "missing.csv" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert main(words) == 0
    review = tmp_path / "out" / "url_patterns.csv"
    assert f"answer {review} and pass it with --patterns" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (last,) = json.loads((tmp_path / "out" / "rounds.json").read_text())["rounds"]
    assert manifest["documents"] == last["by_score"] + last["by_url"]
