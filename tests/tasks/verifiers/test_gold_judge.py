from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dph._processes.workers.pool import GOLD_STAGE, Reply, ReplyKind
from dph.records import Outcome
from dph.tasks.verifiers.base import GoldJudge
from dph.tasks.verifiers.math.verifier import MathPair, PooledMathVerifier
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier

RIGHT = "SELECT name FROM singer"
OTHER = "SELECT name FROM singer ORDER BY age"

# A worker whose golds are slow the first time or always. The files of `marks` count the attempts of
# all workers.
SLOW = """
    import os, time
    from pathlib import Path
    from dph.records import Outcome
    from dph.tasks.verifiers.math import handler as math
    from dph.tasks.verifiers.sql import handler as sql
    from dph.tasks.verifiers.sql.executor import SQLFailure

    MARKS = Path({marks!r})

    def is_slow():
        mine = MARKS / f"{{len(list(MARKS.iterdir()))}} {{os.getpid()}} {{time.monotonic_ns()}}"
        mine.touch()
        first = min(MARKS.iterdir(), key=lambda mark: int(mark.name.split()[2]))
        if {when!r} == "always":
            return True
        return first == mine

    def late(seconds):
        if {how!r} == "hangs":
            time.sleep(60)
        time.sleep(min(seconds, 0.2))

    def make_sql(options):
        grader = sql.make_sql_grader(options)
        run = grader._run_gold

        def run_gold(database, statement, seconds=None):
            if is_slow():
                late(seconds or 0.2)
                return SQLFailure(Outcome.TIMED_OUT, "over the limit")
            return run(database, statement, seconds)

        grader._run_gold = run_gold
        return grader

    def make_math(options):
        read = math.read_latex

        def read_latex(text):
            if text == "x+1" and is_slow():
                late(60)
            return read(text)

        math.read_latex = read_latex
        return math.make_math_grader(options | {{"phrases": [], "any_expression": True}})
"""


@pytest.fixture
def marks(tmp_path):
    path = tmp_path / "marks"
    path.mkdir()
    return path


@pytest.fixture
def sql(user_module, monkeypatch, singers, marks):
    """An SQL verifier of several workers whose golds are slow."""
    made = []

    def make(when, how="is late", workers=4):
        name = user_module(SLOW.format(marks=str(marks), when=when, how=how))
        monkeypatch.setattr(SQLVerifier, "_handler", f"{name}:make_sql")
        made.append(SQLVerifier(databases=singers.parent, workers=workers, timeout=0.4))
        return made[-1]

    yield make
    for verifier in made:
        verifier.close()


def judged(verifier, singers, gold=RIGHT, count=40):
    pairs = [SQLPair(singers.name, gold, (RIGHT, OTHER)[n % 2]) for n in range(count)]
    return Counter(each.verdict.outcome for each in verifier.judge(pairs))


@pytest.mark.parametrize("how", ["is late", "hangs"])
def test_a_gold_that_times_out_once_is_no_bad_gold_for_any_worker(sql, singers, how):
    assert judged(sql("once", how, workers=2), singers) == {Outcome.CORRECT: 40}


def test_a_gold_that_is_always_late_is_bad_for_every_worker_and_not_tried_again(
    sql, singers, marks
):
    verifier = sql("always")
    assert judged(verifier, singers) == {Outcome.BAD_GOLD: 40}
    tried = len(list(marks.iterdir()))
    assert tried <= 4 + 1  # each worker once, and the one second chance
    assert judged(verifier, singers) == {Outcome.BAD_GOLD: 40}
    assert len(list(marks.iterdir())) == tried


class ScriptedPool:
    """Hears what is asked; a gold needs ``needs`` seconds."""

    def __init__(self, needs):
        self.needs = needs
        self.asked = []

    def run(self, requests, *, keys):
        self.asked.append([dict(request) for request in requests])
        return [self.reply(request, key) for request, key in zip(requests, keys, strict=True)]

    def reply(self, request, key):
        if "bad_gold" in request:
            return Reply(ReplyKind.OK, value=["BAD_GOLD", 0.0, request["bad_gold"]])
        assert (key is None) == ("gold_seconds" in request)
        if request.get("gold_seconds", 2.0) < self.needs:
            return Reply(ReplyKind.TIMED_OUT, reason="killed", stage=GOLD_STAGE)
        return Reply(ReplyKind.OK, value=["CORRECT", 1.0, ""], stage="prediction")


def test_a_late_gold_is_tried_once_with_three_times_the_limit_and_told_to_the_others_as_bad():
    pool = ScriptedPool(needs=5.0)
    replies = GoldJudge(pool, seconds=2.0).run([{"n": n} for n in range(3)], ["gold"] * 3)
    assert pool.asked[1] == [{"n": 2, "gold_seconds": 6.0}]
    assert pool.asked[2] == [{"n": n, "gold_seconds": 6.0} for n in range(2)]
    assert [reply.value[0] for reply in replies] == ["CORRECT"] * 3
    pool = ScriptedPool(needs=1.0)
    GoldJudge(pool, seconds=2.0).run([{"n": 1}, {"n": 2}], ["a", "b"])
    assert pool.asked == [[{"n": 1}, {"n": 2}]]
    pool = ScriptedPool(needs=7.0)
    judge = GoldJudge(pool, seconds=2.0)
    for _ in range(2):
        replies = judge.run([{"n": n} for n in range(3)], ["gold", "gold", "gold"])
        assert [reply.value for reply in replies] == [
            ["BAD_GOLD", 0.0, "the gold failed: killed"]
        ] * 3
    assert len([asked for asked in pool.asked for one in asked if "gold_seconds" in one]) == 1


@pytest.fixture
def math(user_module, marks):
    pytest.importorskip("math_verify")

    class SlowMath(PooledMathVerifier):
        name, version = "math", "slow"

    def make(when):
        name = user_module(SLOW.format(marks=str(marks), when=when, how="hangs"))
        return closing(SlowMath(handler=f"{name}:make_math", options={}, workers=2, timeout=1.0))

    return make


def test_a_mathematical_gold_that_always_hangs_is_bad_but_for_what_is_spelled_alike(math, marks):
    with math("always") as verifier:
        pairs = [MathPair("x+1", r"\boxed{1+x+0}"), MathPair("x+1", r"\boxed{x+1}")] * 4
        for _ in range(2):
            outcomes = [each.verdict.outcome for each in verifier.judge(pairs)]
            assert outcomes == [Outcome.BAD_GOLD, Outcome.CORRECT] * 4
            assert len(list(Path(marks).iterdir())) <= 3
