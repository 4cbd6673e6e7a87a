"""Our problems as tasks of Inspect, evaluated by Inspect itself (`make test-inspect` has it)."""

import gc

import pytest

from dph import Problem, SettingsError, make_verifier
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.inspect import inspect_task
from environment_classes import Everything, Increment
from graded_tasks import PROBLEMS, RIGHT, SUBJECTS, WRONG, grader

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect_ai: make test-inspect")
from inspect_ai.model import ChatMessageTool, ModelOutput, ModelUsage, get_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _collected():
    """Inspect leaves streams open, of which Python warns when it collects them."""
    yield
    gc.collect()


def said(turn, stop_reason="stop"):
    """A turn of a policy as Inspect's model says it."""
    if isinstance(turn, str):
        return ModelOutput.from_content("mockllm/model", turn, stop_reason)
    tool, arguments = turn
    return ModelOutput.for_tool_call("mockllm/model", tool, arguments)


def evaluated(task, turns, directory, **more):
    outputs = [turn if isinstance(turn, ModelOutput) else said(turn) for turn in turns]
    for output in outputs:  # else Inspect counts tokens with a file that it downloads
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    [log] = inspect_ai.eval(
        task, model=model, log_dir=str(directory / "logs"), display="none", **more
    )
    assert log.status == "success", log.error
    return log


@pytest.mark.parametrize("subject", SUBJECTS)
def test_inspect_evaluates_our_problems_with_our_verifier(subject, tmp_path):
    with grader(subject, tmp_path) as verifier:
        task = inspect_task([PROBLEMS[subject]], verifier)
        turns = [*RIGHT[subject], *WRONG[subject]]
        log = evaluated(task, turns, tmp_path, epochs=2, max_samples=1)
    right, wrong = log.samples
    assert right.scores["verdict"].value == "C"
    assert wrong.scores["verdict"].value == "I"
    assert wrong.scores["verdict"].explanation.startswith("WRONG")
    assert log.results.scores[0].metrics["accuracy"].value == 0.5
    told = [message for message in right.messages if isinstance(message, ChatMessageTool)]
    assert len(told) == len(RIGHT[subject]) - 1  # the last turn ends it
    if subject == "sql":
        assert told[0].text.startswith("3 rows\npen")
        assert "no tool is named 'nothing'" in told[1].text


def test_a_class_that_says_the_worth_itself_has_partial_scores(tmp_path):
    problem = Problem(problem_id="any", prompt="Do it.", answer={})
    with EnvironmentVerifier(Environment(Everything), None) as verifier:
        log = evaluated(inspect_task([problem], verifier), ["Done."], tmp_path)
    [sample] = log.samples
    assert sample.scores["verdict"].value == 0.5
    assert sample.messages[0].text == "Do it. []"  # words of reset follow the prompt


def test_what_is_cut_off_is_wrong_and_what_cannot_be_graded_has_no_score(tmp_path):
    problem = Problem(problem_id="up", prompt="Up.", answer={})
    with EnvironmentVerifier(Environment(Increment), None) as verifier:
        cut = [said("Do", "max_tokens")]
        log = evaluated(inspect_task([problem], verifier), cut, tmp_path)
    assert log.samples[0].scores["verdict"].explanation.startswith("CUT_OFF")
    bad = Problem(problem_id="bad", prompt="?", answer={"answer": ""})
    with make_verifier("math", workers=1) as verifier:
        log = evaluated(inspect_task([bad], verifier), ["1"], tmp_path)
    score = log.samples[0].scores["verdict"]
    assert score.value != score.value
    assert score.explanation.startswith("BAD_GOLD")


def test_calls_of_another_form_are_refused():
    problem = Problem(problem_id="up", prompt="Up.", answer={})
    with (
        EnvironmentVerifier(Environment(Increment, form="plain"), None) as verifier,
        pytest.raises(SettingsError, match=r"a task of Inspect parses .* got form='plain'"),
    ):
        inspect_task([problem], verifier)
