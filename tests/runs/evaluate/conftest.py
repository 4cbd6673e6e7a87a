from dataclasses import replace

import numpy as np
import pytest

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.records import Problem
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.evaluate.scores import SetScores
from runs.evaluate.digits import CountingSampler, DigitVerifier, parity


@pytest.fixture
def make_set():
    """An evaluation set of digit problems."""

    def make(name="digits", problems=10, sampler=None, style=parity, broken=(), **parameters):
        settings = {"max_tokens": 4, "stop_token_ids": (0,), **parameters}
        return EvaluationSet(
            name=name,
            problems=tuple(
                Problem(
                    problem_id=f"{name}-{i}",
                    prompt=f"a digit below {i % 10}",
                    answer={"limit": i % 10, "broken": i in broken},
                )
                for i in range(problems)
            ),
            draw=GradedSampler(
                sampler=sampler or CountingSampler(),
                verifier=DigitVerifier(),
                encode=lambda problem: tuple(problem.prompt.encode()),
                parameters=SamplingParameters(**settings),
                style=style,
            ),
        )

    return make


@pytest.fixture
def make_scores():
    """Scores from a matrix of 0 and 1, problems by samples."""

    def make(correct, *, greedy=None, shares=None, **changes):
        matrix = np.asarray(correct, dtype=bool)
        scores = SetScores(
            problem_ids=tuple(f"p{i}" for i in range(len(matrix))),
            correct=matrix,
            rewards=matrix.astype(float),
            greedy=None if greedy is None else np.asarray(greedy, dtype=bool),
            shares=shares or {},
        )
        return replace(scores, **changes)

    return make
