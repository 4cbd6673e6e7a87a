import pytest

from dph.engines.trl import problems_dataset, reward_function
from dph.errors import DataError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers import make_verifier
from engines.trl.small import make_trainer, plain, weights_of

PROBLEMS = [
    Problem(problem_id="a", prompt="1 + 1 =", answer={"answer": "2"}),
    Problem(problem_id="b", prompt="2 + 2 =", answer={"answer": "4"}),
]


class Echo:
    """Gives the outcome that the answer of the problem names, and remembers what it saw."""

    name = "echo"
    version = "1"

    def __init__(self):
        self.seen = []

    def grade(self, problems, responses):
        self.seen += zip([p.problem_id for p in problems], responses, strict=True)
        outcomes = [Outcome(p.answer["answer"]) for p in problems]
        return [Verdict(outcome=o, reward=float(o is Outcome.CORRECT)) for o in outcomes]

    def close(self):
        pass


def columns(*outcomes):
    answers = [{"answer": outcome} for outcome in outcomes]
    rows = problems_dataset(
        [Problem(problem_id=str(i), prompt="?", answer=a) for i, a in enumerate(answers)]
    )
    return {"problem_id": rows["problem_id"][:], "answer": rows["answer"][:]}


def test_a_verifier_gives_the_rewards_of_its_verdicts():
    with make_verifier("exact") as verifier:
        reward = reward_function(verifier)
        rows = problems_dataset(PROBLEMS)
        given = reward(
            prompts=rows["prompt"][:],
            completions=["2", "5"],
            completion_ids=[[1], [1]],
            problem_id=rows["problem_id"][:],
            answer=rows["answer"][:],
            trainer_state=None,
        )
    assert given == [1.0, 0.0]
    assert reward.__name__ == "exact"


def test_fields_of_one_type_are_columns_for_reward_functions_that_read_them():
    answers = [
        {"target": 5, "numbers": [1, 4], "odd": 1},
        {"target": 7, "numbers": [3, 4], "odd": "x"},
    ]
    problems = [Problem(problem_id=str(i), prompt="?", answer=a) for i, a in enumerate(answers)]
    rows = problems_dataset(problems)
    assert rows["target"][:] == [5, 7]
    assert rows["numbers"][:] == [[1, 4], [3, 4]]
    assert "odd" not in rows.column_names


def test_what_could_not_be_graded_gives_none_and_nothing_else_does():
    outcomes = [outcome.value for outcome in Outcome]
    given = reward_function(Echo())(
        prompts=["?"] * len(outcomes), completions=["x"] * len(outcomes), **columns(*outcomes)
    )
    assert dict(zip(outcomes, given, strict=True)) == {
        outcome: None if outcome in ("BAD_GOLD", "CRASHED") else float(outcome == "CORRECT")
        for outcome in outcomes
    }


def test_a_problem_whose_gold_answer_is_bad_gives_no_signal_at_all():
    class Timing(Echo):
        """The gold answer of problem 0 breaks at its second answer."""

        def grade(self, problems, responses):
            return [
                Verdict(outcome=Outcome.BAD_GOLD, reward=0.0)
                if (problem.problem_id, response) == ("0", "second")
                else Verdict(outcome=Outcome.CORRECT, reward=1.0)
                for problem, response in zip(problems, responses, strict=True)
            ]

    given = reward_function(Timing(), stop_token_ids=(9,))(
        prompts=["?"] * 5,
        completions=["first", "second", "cut", "first", "second"],
        completion_ids=[[9], [9], [5], [9], [9]],
        problem_id=["0", "0", "0", "1", "1"],
        answer=["{}"] * 5,
    )
    assert given == [None, None, None, 1.0, 1.0]


def test_an_answer_that_was_cut_off_gets_nothing_and_is_not_graded():
    verifier = Echo()
    given = reward_function(verifier, stop_token_ids=(9,))(
        prompts=["?"] * 3,
        completions=["whole", "cut", ""],
        completion_ids=[[5, 9], [5, 6], []],
        **columns("CORRECT", "CORRECT", "CORRECT"),
    )
    assert given == [1.0, 0.0, 0.0]
    assert verifier.seen == [("0", "whole")]


def test_the_answer_of_a_chat_is_its_last_message():
    verifier = Echo()
    reward_function(verifier)(
        prompts=[[{"role": "user", "content": "?"}]],
        completions=[[{"role": "assistant", "content": "four"}]],
        **columns("CORRECT"),
    )
    assert verifier.seen == [("0", "four")]
    with pytest.raises(DataError, match="an answer must be text"):
        reward_function(verifier)(
            prompts=["?"], completions=[[{"content": [{"type": "image"}]}]], **columns("CORRECT")
        )


@pytest.mark.parametrize("missing", ["problem_id", "answer"])
def test_a_missing_column_is_named(missing):
    given = columns("CORRECT")
    del given[missing]
    with pytest.raises(DataError, match=f"no column '{missing}'.*problems_dataset"):
        reward_function(Echo())(prompts=["?"], completions=["x"], **given)


@pytest.mark.parametrize(
    ("answer", "message"),
    [("{", "is not JSON"), ("[1]", "not a JSON object"), (None, "is not JSON")],
)
def test_an_answer_that_is_no_json_object_is_refused(answer, message):
    with pytest.raises(DataError, match=f"'7'.*{message}"):
        reward_function(Echo())(prompts=["?"], completions=["x"], problem_id=["7"], answer=[answer])


def test_trl_leaves_ungradable_answers_out_of_the_loss(directory):
    class BadGold(Echo):
        def grade(self, problems, responses):  # noqa: ARG002
            return [Verdict(outcome=Outcome.BAD_GOLD, reward=0.0) for _ in problems]

    trainer = make_trainer(plain(directory, max_steps=1), reward=reward_function(BadGold()))
    before = weights_of(trainer)
    trainer.train()
    assert all((p == before[name]).all() for name, p in trainer.model.named_parameters())
