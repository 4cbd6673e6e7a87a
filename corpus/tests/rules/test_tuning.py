import json
import random

import numpy as np
import pytest

from dph.errors import DataError
from dph_corpus.cli import main
from dph_corpus.documents import DocType, Document
from dph_corpus.rules.own import open_preset
from dph_corpus.rules.presets import load_preset
from dph_corpus.rules.stage import filter_spec
from dph_corpus.rules.tuning import BINS, histogram, outcome_of, read_signals
from dph_corpus.stage_run import run_stage
from dph_corpus.tables import read_table
from small_corpora import small_corpus

UNIQUE, LINES = "qsc_code_frac_chars_alphabet", "qsc_code_num_lines"


def code(n):
    draw = random.Random(n)
    words = ["".join(draw.choices("abcdefghijklmno", k=draw.randint(3, 7))) for _ in range(3 * n)]
    text = "\n".join(f"{a} = {b}({c})" for a, b, c in zip(*[iter(words)] * 3, strict=True))
    return Document.of(text, id=f"d{n:03d}.lua", path="a.lua", language="lua", doc_type="code")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    drawing = Document.of("<svg/>", id="a.svg", path="a.svg", doc_type=DocType.EXCLUDED)
    place = tmp_path_factory.mktemp("in")
    return small_corpus(place, [*map(code, range(60)), drawing], shards=2)


@pytest.fixture(scope="module")
def filtered(corpus, tmp_path_factory):
    return run_stage(filter_spec("fixed"), corpus, tmp_path_factory.mktemp("out")).directory


def dropped_ids(directory):
    rows = [row for p in sorted((directory / "dropped").iterdir()) for row in read_table(p)]
    return {row["id"] for row in rows if row["reason"] != "doc_type"}


def test_a_file_that_no_rule_of_the_preset_reads_is_left_out(tmp_path):
    text = Document.of("some words", id="b.txt", path="b.txt", doc_type="text", language="")
    small_corpus(tmp_path / "in", [code(3), text])
    (tmp_path / "own_lines.py").write_text("def lines(view):\n    return view.text.count('x')\n")
    own = tmp_path / "own.toml"
    own.write_text(
        '[[rule]]\nname = "short"\nsignal = "own_lines:lines"\ndrop = { code = "< 0" }\n'
        'catches = "nothing"\n'
    )
    files = ["--input", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert main(["filter", *files, "--preset", str(own)]) == 0
    assert list(read_signals(tmp_path / "out").ids) == ["d003.lua"]


@pytest.mark.parametrize("thresholds", [{LINES: "< 25"}, {LINES: "", UNIQUE: "> 0.6"}])
def test_other_thresholds_drop_from_disk_what_the_filter_would_drop(
    corpus, filtered, tmp_path, thresholds
):
    columns = read_signals(filtered)
    assert len(columns.ids) == 60  # the drawing is read by no rule
    outcome = outcome_of(open_preset("fixed", thresholds), columns)
    run_stage(filter_spec("fixed", thresholds), corpus, tmp_path / "again")
    assert {*columns.ids[outcome.dropped]} == dropped_ids(tmp_path / "again")
    verdicts = read_table(tmp_path / "again" / "verdicts.parquet")
    for row in verdicts:
        place = columns.ids.tolist().index(row["id"])
        assert outcome.drops[row["rule"]][place] == row["drops"]


def test_a_histogram_counts_every_document_once_and_has_the_cut_inside(filtered):
    columns = read_signals(filtered)
    found = histogram(load_preset("fixed").rules[LINES], columns)
    assert found.counts.sum() == 60
    assert len(found.edges) == BINS + 1
    assert all(found.edges[0] < cut < found.edges[-1] for _, cut in found.condition.parts)
    ratios = (1 + found.edges[1:]) / (1 + found.edges[:-1])  # the other cut is at 100,000 lines
    assert np.allclose(ratios, ratios[0])


def test_tune_shows_what_changes_and_saves_it_for_the_filter(corpus, filtered, tmp_path, capsys):
    words = ["tune", str(filtered), "--threshold", f"{LINES}=< 30"]
    save = ["--save", str(tmp_path / "mine.toml")]
    assert main([*words, *save, "--input", str(corpus.directory)]) == 0
    told = capsys.readouterr().out
    assert "now dropped: " in told
    assert "now kept: 0 documents" in told
    assert " = " in told  # the text of an example
    main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    again = run_stage(filter_spec(str(tmp_path / "mine.toml")), corpus, tmp_path / "again")
    assert found["dropped"]["after"] == 60 - len([*again.documents()])
    assert {*found["now_dropped"]} == dropped_ids(tmp_path / "again") - dropped_ids(filtered)


def test_without_a_threshold_tune_shows_what_a_rule_drops(filtered, capsys):
    assert main(["tune", str(filtered), "--rule", LINES, "--examples", "2"]) == 0
    told = capsys.readouterr().out
    assert "dropped: 10 documents (by qsc_code_num_lines)" in told
    assert told.count("-- d0") == 2
    assert "|" in told


def test_what_cannot_be_tuned_is_bad_input(corpus, filtered, tmp_path, capsys):
    with pytest.raises(DataError, match="tune reads what a filter has written"):
        read_signals(corpus.directory)
    for words, message in (
        (["--rule", "none"], "has no rule 'none'"),
        (["--threshold", "none=> 1"], "has no rule 'none'"),
    ):
        assert main(["tune", str(filtered), *words]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "own.toml").write_text('base = "fixed"\n')
    run_stage(filter_spec(str(tmp_path / "own.toml")), corpus, tmp_path / "own")
    assert main(["tune", str(tmp_path / "own")]) == 2
    assert "was filtered by the file own.toml: pass it as --preset" in capsys.readouterr().err
    words = ["--preset", str(tmp_path / "own.toml"), "--save", str(tmp_path / "b.toml")]
    assert main(["tune", str(tmp_path / "own"), *words]) == 2
    assert "thresholds are saved over a named preset" in capsys.readouterr().err
    assert not (tmp_path / "b.toml").exists()


def test_another_preset_is_looked_at_without_the_thresholds_of_the_filter(corpus, tmp_path, capsys):
    run_stage(filter_spec("fixed", {LINES: "< 25"}), corpus, tmp_path / "out")
    (tmp_path / "mine.toml").write_text('base = "fixed"\n')

    def dropped(*words):
        assert main(["tune", str(tmp_path / "out"), "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)["dropped"]["after"]

    plain = int(outcome_of(load_preset("fixed"), read_signals(tmp_path / "out")).dropped.sum())
    assert dropped("--preset", str(tmp_path / "mine.toml")) == plain
    assert dropped() == dropped("--preset", "fixed") > plain
