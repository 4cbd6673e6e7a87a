from dataclasses import replace

import pytest

from dph.records import Verdict
from dph.runs.presample.presample import presample
from letter_task import *  # noqa: F403
from letter_task import GRADING


class OtherOutcomes:
    """The letter task's verifier, with another outcome for the answers to some problems."""

    name, version = "letter", "1"

    def __init__(self, inner, outcomes):
        self.inner, self.outcomes = inner, outcomes

    def grade(self, problems, responses):
        verdicts = self.inner.grade(problems, responses)
        for place, problem in enumerate(problems):
            if problem.problem_id in self.outcomes:
                outcome = self.outcomes[problem.problem_id]
                verdicts[place] = Verdict(outcome=outcome, reward=0.0, reason="no such table")
        return verdicts


@pytest.fixture
def pool_of(make_model, make_draw, make_source, make_reference, rule, problems):
    """Pre-sample the letter task into a directory, with another sampler by ``change``."""

    def run(path, *, on_progress=None, change=lambda draw: draw, outcomes=None, **of_rule):
        model = make_model()
        draw = make_draw(model)
        if outcomes:
            draw = replace(draw, verifier=OtherOutcomes(draw.verifier, outcomes))
        return presample(
            problems,
            path,
            draw=change(draw),
            reference=make_reference(model),
            source=make_source(model),
            grading=GRADING,
            rule=rule.model_copy(update=of_rule),
            on_progress=on_progress,
        )

    return run
