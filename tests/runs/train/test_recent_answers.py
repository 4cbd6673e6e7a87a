import pytest

from dph.errors import CheckpointError
from dph.recipe.objective import AnchorSettings
from dph.records import Outcome
from dph.runs.train.recent_answers import RecentAnswers, correct_answers
from dph.runs.train.rows import PolicyRow
from loop_parts import graded, group_of, stored_answer


def anchor(**changes):
    return AnchorSettings(divergence="jensen_shannon", weight=0.2, **changes)


def group_with_rows(problem, outcomes):
    """A group, and its rows with old log-probs -0.1, -0.2 ... that are not the sampler's."""
    answers = [
        graded(outcome, (5, 1), problem=problem, index=i, finished=outcome is not Outcome.CUT_OFF)
        for i, outcome in enumerate(outcomes)
    ]
    rows = tuple(
        PolicyRow(
            prompt_ids=(7, 8),
            completion_ids=(5, 1),
            advantage=0.0,
            old_logprobs=(-(i + 1) / 10, -1.0),
        )
        for i in range(len(outcomes))
    )
    return group_of(*answers, prompt=(7, 8)), rows


def step_of(*problems):
    """Groups and rows of a step in which every problem has one correct answer and one wrong."""
    pairs = [group_with_rows(name, [Outcome.CORRECT, Outcome.WRONG]) for name in problems]
    return [group for group, _ in pairs], [rows for _, rows in pairs]


def filled(steps, **anchors):
    """A buffer after ``steps``, each a text whose letters are the problems solved in it."""
    recent = RecentAnswers(anchors)
    for number, solved in enumerate(steps, start=1):
        recent.add(*step_of(*solved), step=number)
    return recent


def held(recent, name="replay"):
    return "".join(sample.problem_id for sample in recent.samples()[name])


def test_only_correct_answers_enter_with_the_old_log_probs_of_their_rows():
    outcomes = [Outcome.WRONG, Outcome.CORRECT, Outcome.CRASHED, Outcome.CUT_OFF, Outcome.CORRECT]
    group, rows = group_with_rows("p", outcomes)
    assert correct_answers([group], [rows]) == [
        stored_answer((5, 1), (-(i + 1) / 10, -1.0), prompt=(7, 8), index=i, correct=2)
        for i in (1, 4)
    ]
    group, rows = group_with_rows("p", [Outcome.CORRECT] * 3)  # without a wrong one, too
    assert len(correct_answers([group], [rows])) == 3


def test_before_the_first_step_there_is_nothing_to_rehearse():
    assert filled([], replay=anchor(samples="recent:2")).samples() == {"replay": ()}


@pytest.mark.parametrize(
    ("recent", "after"),
    [(1, ["ab", "c", "", "de"]), (2, ["ab", "abc", "c", "de"]), (3, ["ab", "abc", "abc", "cde"])],
)
def test_answers_leave_when_they_are_too_old_and_no_other_step_replaces_them(recent, after):
    steps = ["ab", "c", "", "de"]
    for count, expected in enumerate(after, start=1):
        assert held(filled(steps[:count], replay=anchor(samples=f"recent:{recent}"))) == expected


def test_over_capacity_the_first_that_came_in_is_the_first_to_leave():
    steps = ["ab", "cd", "e", "fghij"]
    after = ["ab", "bcd", "cde", "hij"]
    for count, expected in enumerate(after, start=1):
        recent = filled(steps[:count], replay=anchor(samples="recent:9", recent_capacity=3))
        assert held(recent) == expected


def test_several_anchors_see_the_same_answers_through_windows_of_their_own():
    anchors = {
        "short": anchor(samples="recent:1"),
        "few": anchor(samples="recent:3", recent_capacity=2),
        "pool": anchor(),
    }
    recent = filled(["ab", "cd", "e"], **anchors)
    assert held(recent, "short") == "e"
    assert held(recent, "few") == "de"
    assert "pool" not in recent
    assert "pool" not in recent.samples()
    assert recent.metrics() == {"recent_answers": 5}


def test_no_more_is_kept_than_the_most_demanding_anchor_sees():
    capped = {
        "a": anchor(samples="recent:2", recent_capacity=2),
        "b": anchor(samples="recent:9", recent_capacity=1),
    }
    assert len(filled(["abc", "de"], **capped)) == 2


def test_without_such_an_anchor_nothing_is_kept_counted_or_written(tmp_path):
    recent = filled(["ab"], pool=anchor())
    recent.write(tmp_path)
    recent.read(tmp_path, step=1)
    assert len(recent) == 0
    assert recent.metrics() == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [["ab", "c"], [""]])
def test_a_checkpoint_brings_back_every_answer_with_its_age(tmp_path, steps):
    anchors = {"replay": anchor(samples="recent:2")}
    recent, again = filled(steps, **anchors), RecentAnswers(anchors)
    recent.write(tmp_path)
    again.read(tmp_path, step=len(steps))
    for buffer in (recent, again):
        buffer.add(*step_of("d"), step=len(steps) + 1)
    assert held(again) == held(recent) == ("cd" if len(steps) == 2 else "d")
    as_stored = [
        (s.problem_id, s.completion_ids, s.correct, pytest.approx(s.ref_logprobs, rel=2**-24))
        for s in recent.samples()["replay"]
    ]
    found = again.samples()["replay"]
    assert [(s.problem_id, s.completion_ids, s.correct, s.ref_logprobs) for s in found] == as_stored


@pytest.mark.parametrize("content", [None, b"no parquet"])
def test_a_checkpoint_without_its_answers_is_damaged(tmp_path, content):
    if content is not None:
        (tmp_path / "recent.parquet").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        RecentAnswers({"replay": anchor(samples="recent:2")}).read(tmp_path, step=1)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="recent_capacity needs samples = 'recent:STEPS'"):
        anchor(recent_capacity=3)
    with pytest.raises(ValueError, match="choose another divergence"):
        AnchorSettings(divergence="jensen_shannon_definition", weight=1.0, samples="recent:2")
