"""What the last line says of losses by damage, and with which exit code a verb ends."""

import json

import pytest

from dph_corpus.cli import main
from dph_corpus.documents import Document
from dph_corpus.ingest.run import loss_of
from dph_corpus.shards import open_corpus
from dph_corpus.stage import StageSpec
from dph_corpus.stage_run import run_stage
from small_corpora import numbered, small_corpus

GOOD, BAD, FIELD = {"text": "x"}, "no json", {"text": "y", "stars": "many"}
TAKEN = [{"text": text, "path": "a.py"} for text in "xyz"]


@pytest.fixture
def run(tmp_path, capsys):
    """The exit code of a verb over rows, and its last line."""

    def runs(rows, verb="ingest", *more):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
        given = (
            [f"{tmp_path}/in.jsonl"] if verb == "ingest" else ["--input", f"{tmp_path}/in.jsonl"]
        )
        code = main([verb, *given, "--out", f"{tmp_path}/out", "--workers", "1", *more])
        said = capsys.readouterr()
        return code, (said.out or said.err).strip().splitlines()[-1]

    return runs


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ([], 0, "kept 0 of 0 documents"),
        ([GOOD, {"text": "bi\0nary"}, {"text": None}], 0, "kept 1 of 1 documents"),
        ([GOOD, BAD, FIELD], 1, "lost 2, kept 1: bad_field 1, not_json 1; first in: line 2: "),
        ([FIELD], 1, "lost 1, kept 0: bad_field 1; first in: line 1: stars: "),
        ([{"code": "x"}], 1, "lost 1, kept 0: no_text 1; first in: line 1: the row has 'code'"),
        (TAKEN[:2], 0, "lost 1, kept 1: id_taken 1; first in/a.py; all are in "),
        (TAKEN, 1, "lost 2, kept 1: id_taken 2; first in/a.py; all are in "),
        ([*TAKEN, BAD], 1, "out/dropped and skipped.parquet"),
        (TAKEN[:1] * 3, 0, "kept 1 of 3 documents"),
        ([{"text": "\0"}], 1, "lost 1, kept 0: binary 1; first in: line 1; all are in "),
    ],
)
def test_a_run_that_lost_more_than_it_kept_or_all_of_it_ends_with_1(run, rows, code, said):
    found, line = run(rows)
    assert (found, said in line) == (code, True), line


def test_a_loss_can_be_allowed_and_is_told_all_the_same(run, tmp_path):
    code, line = run([FIELD], "ingest", "--allow-loss")
    assert code == 0
    assert line.startswith("ingest: lost 1, kept 0")
    assert open_corpus(tmp_path / "out").manifest.flow.skipped == {"bad_field": 1}


def test_a_stage_that_reads_rows_tells_their_losses_and_refuses_if_most_are_lost(run):
    code, line = run([GOOD, {"text": "z"}, FIELD], "licences", "--keep-unstated")
    assert (code, "lost 1, kept 2: bad_field 1" in line) == (0, True)
    code, line = run([GOOD, BAD, FIELD], "licences")
    assert code == 1
    assert "ingest --allow-loss" in line


def test_documents_that_cost_a_worker_are_a_loss(tmp_path):
    documents = [*numbered(2), Document.of("die", id="fatal", path="a")]
    spec = StageSpec(name="lengths", entry="small_corpora:Lengths", settings={"longest": 3})
    made = run_stage(spec, small_corpus(tmp_path / "in", documents), tmp_path / "out")
    assert made.manifest.flow.reasons["long"].documents == 2  # which no one has lost
    line, too_much = loss_of(made)
    assert (line.partition("; all")[0], too_much) == (
        "lengths: lost 1, kept 0: crash 1; first fatal",
        False,
    )
