import importlib
import inspect
import json
import os
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from pkgutil import resolve_name

import pytest

from dph._processes.workers.pool import GOLD_STAGE, Reply, ReplyKind
from dph.errors import SettingsError
from dph.recipe import DataSettings
from dph.records import Outcome, Problem, Verdict
from dph.tasks.grading.rows import VerifierRowGrader
from dph.tasks.verifiers import VERIFIERS, Verifier, make_verifier, verifier_identity
from dph.tasks.verifiers.base import GoldJudge, OneAtATime
from dph.tasks.verifiers.math.verifier import MathPair, PooledMathVerifier
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from dph.tasks.verifiers.table import verifier_settings


def test_directories_may_be_named_by_text_and_a_function_by_itself(tmp_path, user_module):
    (tmp_path / "named_by_text.py").write_text("def f(r, p):\n    return True")
    make_verifier("named_by_text:f", modules=[str(tmp_path)]).close()
    name = user_module("def f(r, p):\n    return r == 'a'")
    function = importlib.import_module(name).f
    assert identity(function, timeout=3) == identity(f"{name}:f", timeout=3)
    assert identity(function)["settings"] == {"timeout": 5.0, "source": f"{name}.py"}
    make_verifier("sql", databases=str(tmp_path)).close()


@pytest.mark.parametrize("given", [None, 5, ["sql"], lambda *_: True])
def test_what_is_neither_a_name_nor_a_function_of_a_module_is_refused(given):
    with pytest.raises(SettingsError, match=r"a verifier is one of sql, math.* got|is a lambda"):
        make_verifier(given)


@pytest.mark.parametrize("name", ["sqll", "", "a b:c", "module:"])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(SettingsError) as caught:
        make_verifier(name)
    choices = "sql, math, math_qwen, code, reasoning_gym, number, exact"
    for part in (repr(name), choices, "module:function"):
        assert part in str(caught.value)


SHARED = {"databases", "workers", "timeout"}


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_row_says_the_settings_and_defaults_that_the_class_itself_has(name):
    row = VERIFIERS[name]
    made = resolve_name(row.path)
    signature = inspect.signature(made).parameters if "__init__" in vars(made) else {}
    said = {setting.argument: setting.default for setting in row.settings.values()}
    assert made.name == name
    assert said == {key: signature[key].default for key in said}
    assert set(row.takes) == SHARED & set(signature)
    assert row.compares == hasattr(made, "gold_of")


def test_every_setting_is_a_key_of_its_own_in_a_recipe():
    assert sum(len(row.settings) for row in VERIFIERS.values()) == len(verifier_settings())
    for key, setting in verifier_settings().items():
        field = DataSettings.model_fields[key]
        assert (field.default, field.description) == (setting.default, setting.meaning)


def test_a_setting_that_a_verifier_does_not_have_is_refused():
    with pytest.raises(SettingsError, match=r"no verifier has a setting 'gym'; there are sql_rule"):
        make_verifier("exact", gym=1.0)
    make_verifier("exact", gym_threshold=0.5).close()  # another's, as a recipe has all of them
    with pytest.raises(SettingsError, match="gym_threshold is not a setting of the verifier 'exa"):
        VerifierRowGrader("exact", gym_threshold=0.5)


def identity(name, **settings):
    with closing(make_verifier(name, **settings)) as verifier:
        return verifier_identity(verifier)


@pytest.mark.parametrize("name", list(VERIFIERS))
def test_a_verifier_is_made_by_its_name_and_says_what_its_verdicts_depend_on(name, tmp_path):
    with closing(make_verifier(name, databases=tmp_path, workers=2, timeout=3.0)) as verifier:
        assert isinstance(verifier, Verifier)
        found = verifier_identity(verifier)
        assert (found["name"], found["version"]) == (name, verifier.version)
    assert set(found) == {"name", "version", "settings"}
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("name", ["sql", "math", "math_qwen"])
def test_the_time_limit_is_part_of_the_identity_and_the_number_of_workers_is_not(name, tmp_path):
    usual = identity(name, databases=tmp_path)
    assert identity(name, databases=tmp_path, workers=3, timeout=5) == usual
    assert identity(name, databases=tmp_path, timeout=6.0) != usual


def test_the_rule_and_where_answers_are_looked_for_are_part_of_the_identity(tmp_path):
    strict = identity("sql", databases=tmp_path, sql_rule="strict")
    assert identity("sql", databases=tmp_path) != strict
    assert identity("math") != identity("math", math_phrases=["so"])
    assert identity("math") != identity("math", math_any_expression=False)
    with closing(SQLVerifier(sources=["bare"])) as one, closing(SQLVerifier()) as other:
        assert verifier_identity(one) != verifier_identity(other)


def test_another_content_of_the_databases_is_another_identity_and_another_place_is_not(
    singers, tmp_path
):
    before = identity("sql", databases=singers.parent)
    (singers.parent / "notes.txt").write_text("no database")
    os.utime(singers, (1, 1))
    moved = singers.parent.rename(tmp_path / "elsewhere")
    assert identity("sql", databases=moved) == before
    with closing(sqlite3.connect(moved / singers.name)) as connection:
        connection.execute("UPDATE singer SET age = age + 1 WHERE id = 1")
        connection.commit()
    assert identity("sql", databases=moved) != before


class Watched:
    name, version, settings = "watched", "3", {"rule": "strict"}

    def __init__(self):
        self.inside, self.most, self.closed = 0, 0, False
        self.lock = threading.Lock()

    def grade(self, problems, responses):
        assert len(problems) == len(responses)
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.01)
        with self.lock:
            self.inside -= 1
        return [Verdict(outcome=Outcome.WRONG, reward=0.0, reason=r) for r in responses]

    def close(self):
        self.closed = True


def test_threads_take_turns_and_it_has_the_identity_of_the_one_inside():
    watched = Watched()
    verifier = OneAtATime(watched)
    problem = Problem(problem_id="q", prompt="")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: verifier.grade([problem], [str(i)]), range(16)))
    assert [verdicts[0].reason for verdicts in found] == [str(i) for i in range(16)]
    assert watched.most == 1
    assert isinstance(verifier, Verifier)
    assert (verifier.name, verifier.version) == ("watched", "3")
    assert verifier.settings == {"rule": "strict"}
    verifier.close()
    assert watched.closed


RIGHT = "SELECT name FROM singer"
OTHER = "SELECT name FROM singer ORDER BY age"

# A worker whose golds are slow the first time or always. The files of `marks` count the attempts of
# all workers.
SLOW = """
    import os, time
    from pathlib import Path
    from dph.records import Outcome
    from dph.tasks.verifiers.math import handler as math
    from dph.tasks.verifiers.sql import executor as sql
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
