"""Our problems, graders and environments in TRL's own trainer: datasets, tools, rewards."""

import pytest

from dph import Problem, SettingsError
from dph.engines.trl import trainer_arguments
from dph.tasks.environments import Environment, EnvironmentVerifier, EpisodeLimits
from engines.trl.test_environment import trained
from environment_classes import Everything, Hostile, ReadsMessages
from graded_tasks import PROBLEMS, RIGHT, SUBJECTS, WRONG, grader
from scripted_policy import START, call


def script(*members):
    """Turns of each member of a group, and a word at the end of one that was not said yet."""

    def say(prompt, index):
        turns = [t if isinstance(t, str) else call(t[0], **t[1]) for t in members[index]]
        turns.append("Done.")
        asked = prompt.partition(f"{START}user\n")[2]
        return turns[min(asked.count(f"{START}assistant\n") - 1, len(turns) - 1)]

    return say


@pytest.mark.parametrize("subject", SUBJECTS)
def test_trl_trains_on_our_problems_with_our_verifier(subject, tmp_path):
    seen = []
    with grader(subject, tmp_path) as verifier:
        arguments = trainer_arguments(
            [PROBLEMS[subject]],
            verifier,
            chat=True,
            observe=lambda _, verdicts: seen.extend(verdicts),
        )
        said = script(RIGHT[subject], WRONG[subject])
        _, line = trained(said, tmp_path, generations=2, arguments=arguments)
    assert [verdict.outcome.value for verdict in seen] == ["CORRECT", "WRONG"]
    assert line["reward"] == 0.5
    if subject == "sql":  # one of its calls names a tool that TRL does not find
        assert line["tools/call_frequency"] == 2.0
        assert line["tools/failure_frequency"] == 0.25


def test_a_tool_that_hangs_costs_its_trajectory_and_not_the_trainer(tmp_path):
    problem = Problem(problem_id="hostile", prompt="Act.", answer={})
    limits = EpisodeLimits(seconds=1.0)
    seen = []
    with EnvironmentVerifier(Environment(Hostile, limits=limits), None) as verifier:
        arguments = trainer_arguments(
            [problem], verifier, observe=lambda _, verdicts: seen.extend(verdicts)
        )
        deeds = [[("act", {"deed": deed})] for deed in ("hangs", "dies", "is_nothing", "raises")]
        trained(script(*deeds), tmp_path, generations=4, arguments=arguments)
    outcomes = [verdict.outcome.value for verdict in seen]
    assert outcomes == ["TIMED_OUT", "CRASHED", "WRONG", "WRONG"]


def test_what_trl_does_not_tell_a_class_is_refused():
    problem = Problem(problem_id="any", prompt="?", answer={})
    for environment, message in [
        (Environment(Everything, form="plain"), "environment_factory parses calls of a chat"),
        (Environment(ReadsMessages), "reads messages, which TRL's environment_factory does not"),
    ]:
        with (
            EnvironmentVerifier(environment, None) as verifier,
            pytest.raises(SettingsError, match=message),
        ):
            trainer_arguments([problem], verifier)
