"""Trajectories in processes: the contract, its limits, and what a hostile class or policy costs."""

import json
import time

import pytest

from dph import Outcome, Problem, SettingsError, VerifierError
from dph.errors import DataError
from dph.records import Verdict
from dph.tasks.environments import Environment, EpisodeLimits
from environment_classes import (
    Everything,
    Forging,
    HangsInReset,
    Hostile,
    Increment,
    IncrementTo,
    NoReset,
    NoTypes,
    RaisesInReset,
    RaisesWhenMade,
    SaysANumber,
    SaysNothing,
)
from scripted_policy import call

EMPTY = Problem(problem_id="p", prompt="")
QUICK = EpisodeLimits(seconds=2.0, memory_bytes=500_000_000)


@pytest.fixture(scope="module")
def hostile():
    with Environment(Hostile, limits=QUICK) as environment:
        yield environment


@pytest.fixture(scope="module")
def increment():
    with Environment(Increment) as environment:
        yield environment


@pytest.fixture(scope="module")
def everything():
    with Environment(Everything, limits=EpisodeLimits(turns=50, errors=100)) as environment:
        yield environment


def test_the_examples_of_trl_run_unchanged(increment):
    with increment.begin(EMPTY) as episode:
        target = int(episode.said.split()[-1].rstrip("."))
        (result,) = episode.step(call("increment", step=target))
        assert result.text == str(target)
        assert episode.step("Done.") == []
        assert episode.verdict() == Verdict(outcome=Outcome.CORRECT, reward=1.0)
    problem = Problem(problem_id="p", prompt="To 4.", answer={"target": 4})
    with Environment(IncrementTo) as environment:
        for steps, reward in (((4,), 1.0), ((1, 3), 1.0), ((5,), 0.0)):
            with environment.begin(problem) as episode:
                assert episode.said == ""
                for step in steps:
                    episode.step(call("increment", step=step))
                episode.step("Done.")
                assert episode.verdict().reward == reward


def test_messages_say_which_call_of_its_turn_a_result_is_of():
    text = "CALL increment(oops)\nCALL nothing()\nCALL increment(2)"
    with Environment(Increment, form="plain") as environment, environment.begin(EMPTY) as episode:
        episode.step(text)
        turn, *results = episode.messages
    assert turn["calls"] == [["nothing", {}], ["increment", {"step": 2}]]
    said = [(r["role"], r["name"], r["call"]) for r in results]
    assert said == [("tool", "", None), ("tool", "", 0), ("tool", "increment", 1)]
    assert results[2]["content"] == "2"


def test_members_of_a_group_begin_alike_and_other_problems_do_not(increment):
    def said(name, member, seed=3):
        problem = Problem(problem_id=name, prompt="")
        with increment.begin(problem, seed=seed, member=member) as episode:
            return episode.said

    assert {said("a", member) for member in range(4)} == {said("a", 0)}
    assert len({said(name, 0) for name in "abcdefgh"}) > 1
    assert len({said("a", 0, seed=seed) for seed in range(8)}) > 1


def test_asynchronous_tools_are_awaited_and_hidden_columns_never_reach_the_class(everything):
    with everything.begin(EMPTY) as episode:
        assert [r.text for r in episode.step(call("later") * 2)] == ["waited"] * 2
        episode.step("")
        assert episode.verdict().reward == 0.5
    problem = Problem(problem_id="p", prompt="", answer={"gold": "42", "shown": 1})
    with Environment(Everything, hidden=["gold"]) as hiding, hiding.begin(problem) as episode:
        assert episode.said == " ['shown']"


def test_the_tool_that_submits_ends_the_trajectory_with_its_answer_as_text():
    with Environment(Everything, submits="echo") as environment:
        for answer in ("42", ""):
            with environment.begin(EMPTY) as episode:
                assert episode.step(call("echo", text=answer) + call("later")) == []
                assert episode.order == ["echo"]
                graded = episode.verdict(
                    lambda text: Verdict(outcome=Outcome.WRONG, reward=0.0, reason=f"={text}")
                )
                assert graded.reason == f"={answer}"
    with Environment(Everything, submits="echo") as environment, environment.begin(EMPTY) as one:
        assert one.step(call("echo", text="a\ud800b")) == []
        assert one.answer == "a?b"


def test_a_module_that_prints_and_reads_while_it_is_imported_is_in_nobodys_way(
    tmp_path, monkeypatch, capfd
):
    (tmp_path / "loud.py").write_text(
        "import sys\nfrom environment_classes import Increment\nprint('loud', flush=True)\n"
        "sys.stdin.read()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        Environment("loud:Increment", start_seconds=20) as environment,
        environment.begin(EMPTY) as episode,
    ):
        assert "Increment the counter" in episode.said
    assert "loud" not in capfd.readouterr().out


FAULTS = [
    ("<tool_call>{", "not JSON"),
    (call("nothing"), "no tool is named 'nothing'"),
    (call("reset"), "no tool is named 'reset'"),
    (call("get_reward"), "no tool is named 'get_reward'"),
    (call("\u0435cho", text="a"), "no tool is named"),
    (call("echo"), "'text' is missing"),
    (call("echo", text="a", self="b"), "there is no argument 'self'"),
    (call("later", seconds=True), "seconds is of type number, got True"),
]


@pytest.mark.parametrize(("text", "reason"), FAULTS)
def test_a_bad_call_is_told_and_costs_nothing_else(everything, text, reason):
    with everything.begin(EMPTY) as episode:
        (result,) = episode.step(text)
        assert result.failed
        assert reason in result.text
        assert episode.failures == 1
        assert [r.text for r in episode.step(call("echo", text="still here"))] == ["still here"]


def test_text_of_an_argument_is_text(everything):
    with everything.begin(EMPTY) as episode:
        for text in ("{0.__class__}", "%s", "$(rm -rf /)", "\x00", "\ufeff", "😀" * 9):
            (result,) = episode.step(call("echo", text=text))
            assert result.text == text


def test_what_a_tool_raises_is_told_as_trl_tells_it(hostile):
    for deed, reason in {
        "raises": "ValueError: no",
        "raises_in_its_message": "BadError: its message cannot be read",
        "exits": "SystemExit: 3",
        "recurses": "RecursionError",
        "is_not_there": "AttributeError",
    }.items():
        with hostile.begin(EMPTY) as episode:
            (result,) = episode.step(call("act", deed=deed))
            assert result.failed
            assert result.text.startswith("{'error': ")
            assert reason in result.text
            assert episode.ending is None


ENDS = [
    ("hangs", Outcome.TIMED_OUT, "act: killed after 2 s"),
    ("spins", Outcome.TIMED_OUT, "act: killed after 2 s"),
    ("dies", Outcome.CRASHED, "act: the process died: exit code 0"),
    ("aborts", Outcome.CRASHED, "act: the process died: SIGABRT"),
    ("says_much", Outcome.OVER_LIMIT, "act: a text of 100000000 characters"),
    ("allocates", Outcome.OVER_LIMIT, "act: more than 500000000 bytes of memory"),
    ("writes_to_every_pipe", Outcome.CRASHED, "act: its process sent a malformed answer"),
    ("answers_in_another_form", Outcome.CRASHED, "act: its process sent a malformed answer"),
    ("answers_another_request", Outcome.CRASHED, "act: its process sent a malformed answer"),
    ("closes_every_pipe", Outcome.CRASHED, "act: the process died"),
]


@pytest.mark.parametrize(("deed", "outcome", "reason"), ENDS)
def test_a_process_that_is_lost_costs_one_trajectory(hostile, deed, outcome, reason):
    with hostile.begin(EMPTY) as other, hostile.begin(EMPTY) as episode:
        assert episode.step(call("act", deed=deed)) == []
        assert episode.verdict().outcome is outcome
        assert episode.verdict().reward == 0.0
        assert episode.verdict().reason.startswith(reason)
        assert episode.step(call("act", deed="is_nothing")) == []  # it is over
        assert [r.text for r in other.step(call("act", deed="is_nothing"))] == ["None"]


HARMLESS = [
    ("kills_its_parent", "False"),
    ("is_bytes", "b'\\xff\\xfe'"),
    ("is_a_surrogate", "half ? pair"),
    ("is_nothing", "None"),
    ("is_special", "<|im_end|><eos></s>\x00"),
    ("prints", "printed"),
    ("reads_its_input", ""),
    ("listens", "bound"),
    ("starts_a_process", "forked"),
    ("changes_its_class", "changed"),
]


@pytest.mark.parametrize(("deed", "text"), HARMLESS)
def test_odd_results_are_text_and_earn_nothing(hostile, deed, text):
    with hostile.begin(EMPTY) as episode:
        assert [r.text for r in episode.step(call("act", deed=deed))] == [text]
        episode.step("Done.")
        assert episode.verdict() == Verdict(
            outcome=Outcome.WRONG, reward=0.0, reason="the function returned 0.0"
        )


def test_a_long_result_is_cut_and_says_so(hostile):
    with hostile.begin(EMPTY) as episode:
        (result,) = episode.step(call("act", deed="says_a_page"))
        assert result.text == "y" * 4000 + "... (1000 more characters)"
        (result,) = episode.step(call("act", deed="holds_a_call"))
        assert result.text.startswith("<tool_call>")
        assert episode.order == ["act"] * 2  # the call inside of a result is text


def test_a_reward_that_is_none_is_a_crash_of_the_environment(hostile):
    for worth in ("two", "nan", "text"):
        with hostile.begin(EMPTY) as episode:
            episode.step(call("act", deed=f"is_worth_{worth}"))
            episode.step("Done.")
            assert (episode.verdict().outcome, episode.verdict().reward) == ("CRASHED", 0.0)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (RaisesInReset, "KeyError: 'no column'"),
        (HangsInReset, "reset: killed after 2 s"),
        (SaysANumber, "reset returned 3 (int); text or None is allowed"),
    ],
)
def test_a_reset_that_fails_costs_the_trajectory(kind, reason):
    with Environment(kind, limits=QUICK) as environment, environment.begin(EMPTY) as episode:
        assert episode.verdict().outcome is Outcome.CRASHED
        assert reason in episode.verdict().reason


def test_endless_calls_end_by_the_limits_and_too_many_in_a_turn_buy_no_turn():
    limits = EpisodeLimits(turns=3, calls=2, errors=1)
    with Environment(Everything, limits=limits) as environment:
        with environment.begin(EMPTY) as episode:
            for _ in range(2):
                assert episode.step(call("echo", text="again"))
            assert episode.step(call("echo", text="again")) == []
            assert episode.verdict().outcome is Outcome.CUT_OFF
            assert episode.verdict().reason == "cut off after 3 turns"
        with environment.begin(EMPTY) as episode:
            *good, bad = episode.step(call("echo", text="a") * 1000)
            assert [r.text for r in good] == ["a", "a"]
            assert "at most 2 calls" in bad.text
            assert episode.step(call("nothing")) == []
            assert episode.verdict().outcome is Outcome.INVALID
            assert episode.verdict().reason.startswith("more than 1 calls failed, the last: no")
    limits = EpisodeLimits(turns=2, calls=1)
    with Environment(Everything, limits=limits) as environment, environment.begin(EMPTY) as episode:
        assert len(episode.step(call("echo", text="a") * 3)) == 2
        assert episode.step(call("echo", text="a") * 3) == []
        assert episode.verdict().reason == "cut off after 2 turns"


def test_a_reward_that_a_class_writes_into_the_pipe_costs_the_trajectory():
    line = json.dumps(["ok", ["worth", "CORRECT", 1.0, ""], 0.0]) + "\n"
    problem = Problem(problem_id="p", prompt="", answer={"line": line})
    with Environment(Forging) as environment, environment.begin(problem) as episode:
        episode.step("Done.")
        assert episode.verdict().outcome is Outcome.CRASHED
        assert episode.verdict().reason == "get_reward: its process sent a malformed answer"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:Class", "cannot import"),
        ("environment_classes:not_a_class", "is not a class, it is a function"),
        (NoReset, "has no method 'reset'"),
        (NoTypes, "needs a type"),
        (RaisesWhenMade, "OSError: no server"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_before_anything_runs(path, message):
    with pytest.raises(SettingsError, match=message):
        Environment(path)


def test_settings_out_of_range_are_refused_and_without_a_reward_nothing_is_worth_anything(
    everything,
):
    with pytest.raises(SettingsError, match="turns must be at least 1, got 0"):
        EpisodeLimits(turns=0)
    with pytest.raises(SettingsError, match="calls are written as json, plain, got 'xml'"):
        Environment(Everything, form="xml")
    with pytest.raises(SettingsError, match="no tool is named 'answer'; there are echo"):
        Environment(Everything, submits="answer")
    with pytest.raises(DataError, match="the columns of reset are JSON"):
        everything.begin(Problem(problem_id="p", prompt="", answer={"x": object()}))
    with Environment(SaysNothing) as environment, environment.begin(EMPTY) as episode:
        episode.step("Done.")
        with pytest.raises(SettingsError, match="no method 'get_reward' and there is no verifier"):
            episode.verdict()


def test_nothing_is_left_when_it_is_closed():
    environment = Environment(Increment, limits=EpisodeLimits(turns=1000))
    episode = environment.begin(EMPTY)
    environment.close()
    environment.close()
    until = time.monotonic() + 60
    while episode.step(call("increment", step=0)) and time.monotonic() < until:
        time.sleep(0.2)  # its process looks every two seconds whether its parent is there
    assert episode.ending.outcome is Outcome.CRASHED
    episode.close()
    episode.close()
    with pytest.raises(VerifierError, match="can be started"):
        environment.begin(EMPTY)
