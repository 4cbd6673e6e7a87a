import pyarrow.parquet as pq
import pytest

from dph.errors import SettingsError
from dph_corpus.documents import DocType, Document
from dph_corpus.rules.stage import FilterStage, filter_spec
from dph_corpus.stage_run import run_stage
from opencoder_files import opencoder_files
from shared_data import SOME_AND_ALL, shared_data
from small_corpora import GOOD, small_corpus


def document(text, **facts):
    given = {"id": "a", "path": "a.py", "language": "python", "doc_type": DocType.CODE}
    return Document.of(text, **given | facts)


def test_a_dropped_document_names_every_rule_that_drops_it():
    outcome = FilterStage({"preset": "opencoder"})(document("print 'x'\n"))
    reasons = [drop.reason for drop in outcome.drops]
    assert {"qsc_code_num_words", "qsc_codepython_cate_ast"} <= set(reasons)
    by_rule = {drop.reason: drop for drop in outcome.drops}
    assert by_rule["qsc_codepython_cate_ast"].value == 0.0
    assert by_rule["qsc_code_num_words"].threshold == "< 30"


def test_verdicts_and_values_of_every_document_are_kept():
    outcome = FilterStage({"preset": "opencoder"})(document(GOOD))
    assert outcome.document is not None
    assert len(outcome.rows["verdicts"]) == 39
    assert not any(row["drops"] for row in outcome.rows["verdicts"])
    values = {row["signal"]: row["value"] for row in outcome.rows["signals"]}
    assert values["qsc_code_num_chars"] == len(GOOD)
    assert "qsc_code_frac_lines_string_concat" in values  # has no threshold


def test_a_type_that_no_rule_reads_is_dropped_unread():
    outcome = FilterStage({"preset": "fixed"})(document("x", doc_type=DocType.EXCLUDED))
    assert [drop.reason for drop in outcome.drops] == ["doc_type"]
    assert outcome.rows == {}


def test_only_the_released_preset_names_languages_as_its_example_does():
    listing = document(GOOD, path="CMakeLists.txt", language="cmake", doc_type=DocType.CODE)
    released, fixed = (FilterStage({"preset": p})(listing) for p in ("opencoder", "fixed"))
    assert all(row["rule"].startswith("qsc_doc_") for row in released.rows["verdicts"])
    assert not any(row["rule"].startswith("qsc_doc_") for row in fixed.rows["verdicts"])


def test_a_language_that_came_with_the_document_stays():
    odd = document(GOOD, path="a.txt")
    assert len(FilterStage({"preset": "opencoder"})(odd).rows["verdicts"]) == 39


def test_an_unknown_preset_is_refused_before_anything_runs():
    with pytest.raises(SettingsError, match="preset"):
        filter_spec("paper")


@SOME_AND_ALL
def test_the_released_verdicts_are_met_on_pinned_files(tmp_path, every):
    files = {
        row["id"]: row
        for row in pq.read_table(shared_data("opencoder") / "files.parquet").to_pylist()
    }
    documents = [
        Document.of(
            r["text"],
            id=r["id"],
            path=r["path"],
            bytes=r["bytes"],
            language="" if r["program_lang"] == "unknown" else r["program_lang"],
            natural_language=r["lang"],
            doc_type=DocType(r["doc_type"]),
        )
        for r in opencoder_files()[::every]
        if not files[r["id"]]["timing"]
    ]
    made = run_stage(
        filter_spec("opencoder"), small_corpus(tmp_path / "in", documents), tmp_path / "out"
    )
    ours = {
        (row["id"], row["rule"]): row["fires"]
        for row in pq.read_table(tmp_path / "out" / "verdicts.parquet").to_pylist()
    }
    rows = pq.read_table(shared_data("opencoder") / "verdicts.parquet").to_pylist()
    given = {document.id for document in documents} if every > 1 else set(files)
    compared = [row for row in rows if not files[row["id"]]["timing"] and row["id"] in given]
    assert compared
    assert [r for r in compared if ours[r["id"], r["rule"]] != r["fires"]] == []
    kept = {doc.id for doc in made.documents()}
    for doc in documents:
        row = files[doc.id]
        assert (doc.id in kept) in {row["keep_strict"], row["keep_lenient"]}
