import json

import pyarrow.parquet as pq
import pytest

from corpus.tests.synth.small_generators import counting
from dph.records import Outcome, Problem
from dph.tasks.verifiers.code.verifier import CodeVerifier
from dph_corpus.settings import SynthSettings
from dph_corpus.synth import run
from dph_corpus.synth.drafts import FunctionJudge
from dph_corpus.synth.generators import GeneratorError, OwnFunction
from dph_corpus.synth.run import PROBLEMS, synthesise
from dph_corpus.synth.seeds import Seed
from dph_corpus.synth.writing import FunctionWriter
from small_corpora import dropped

SEEDS = [Seed(id=f"seed-{n}", text=f"def f{n}(): pass") for n in range(24)]


@pytest.fixture(scope="module")
def verifier():
    with CodeVerifier(workers=2, timeout=1.0) as verifier:
        yield verifier


@pytest.fixture
def made(verifier, tmp_path):
    """Makes rows by a generator of ``small_generators``, in chunks of 8."""

    def make(name, seeds=SEEDS, out="out", samples=1, second=True):
        generator = OwnFunction(f"corpus.tests.synth.small_generators:{name}")
        write = FunctionWriter(
            "functions", generator, FunctionJudge(verifier), verifier if second else None
        )
        return synthesise(
            SynthSettings(kind="functions", samples=samples, second=second),
            seeds,
            write,
            tmp_path / out,
            generator=generator.identity,
        )

    return make


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(run, "_CHUNK", 8)


def reasons(corpus):
    return {name: reason.documents for name, reason in corpus.manifest.flow.reasons.items()}


def test_of_honest_answers_each_task_is_kept_once_and_runs_green_again(made, verifier, tmp_path):
    corpus = made("honest", SEEDS[:12])
    assert corpus.manifest.documents == 2
    assert reasons(corpus) == {"repeated": 10}
    rows = [json.loads(line) for line in (tmp_path / "out" / PROBLEMS).read_text().splitlines()]
    problems = [
        Problem(problem_id=row["problem_id"], prompt=row["prompt"], answer=row) for row in rows
    ]
    verdicts = verifier.grade(problems, [row["response"] for row in rows])
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 2
    kept = pq.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    assert {row["entry_point"] for row in kept} == {"sum_even_squares", "multiples"}
    assert all(2 * row["killed"] >= row["mutants"] > 0 for row in kept)
    texts = {document.id: document.text for document in corpus.documents()}
    assert all("assert " in text and text.startswith("# ") for text in texts.values())


def test_half_of_a_surrogate_pair_is_a_question_mark(made):
    corpus = made("halves", SEEDS[:8])
    assert corpus.manifest.documents == 2
    assert {document.text[:5] for document in corpus.documents()} == {"# ?\n#"}


def test_of_hostile_answers_nothing_is_kept(made):
    corpus = made("hostile", samples=3)
    assert corpus.manifest.documents == 0
    found = reasons(corpus)
    assert sum(found.values()) == 72
    assert {"impure", "fails", "hard_coded", "weak", "disputed"} <= set(found)


def test_without_second_answers_a_program_that_knows_its_tests_can_pass(made):
    assert made("hostile", samples=3, second=False).manifest.documents == 1


def test_a_run_that_was_broken_off_goes_on_and_ends_with_the_same_bytes(made, tmp_path):
    counting.calls = 0
    with pytest.raises(KeyboardInterrupt):
        made("counting", SEEDS[:12], "broken")
    calls = counting.calls
    again = made("counting", SEEDS[:12], "broken")
    assert counting.calls > calls
    whole = made("honest", SEEDS[:12], "whole")
    assert again.manifest.content == whole.manifest.content
    for name in ("rows.parquet", PROBLEMS, "kept/part-00000-of-00001.parquet"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "broken" / ".chunks").exists()


def test_more_seeds_leave_the_answers_of_the_others_as_they_were(made):
    few, more = (
        dropped(made("hostile", SEEDS[:count], out)) for out, count in (("few", 5), ("more", 9))
    )
    assert len(few) == 5
    assert {name: more[name] for name in few} == few


def test_a_generator_that_returns_too_little_is_refused(made):
    with pytest.raises(GeneratorError, match="must return 8 texts, got 7 values"):
        made("wrong_number")
