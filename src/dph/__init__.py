"""Reinforcement learning with verifiable rewards that keeps what the model already could.

From a notebook:

* grade answers: ``grade_sql``, ``grade_math``, ``grade_code``, ``make_verifier``
* measure: ``pass_at_k``; ``compare`` sets evaluated runs side by side
* train: ``load_recipe``, ``run`` (all stages), ``load_pool``, ``load_problems``
* divergences: ``ForwardKL``, ``JensenShannon``, ``Alpha``, ``ReverseKL``, ``make_divergence``
* nouns: ``Problem``, ``Completion``, ``Outcome``, ``Verdict``, ``GradedCompletion``
* errors: ``DphError`` and what is below it

By package, each with its own ``__all__``: ``dph.divergences`` and ``dph.objectives`` (the loss),
``dph.verifiers`` and ``dph.grading`` (what an answer is worth), ``dph.tasks`` (data sets as
problems), ``dph.rollout`` and ``dph.forward`` (sampling, log-probs), ``dph.presampling``,
``dph.training``, ``dph.evaluation``, ``dph.runs`` (the stages), ``dph.diagnosis`` (what a run
lost), ``dph.reporting`` (tables, pictures), ``dph.pages`` (reports to read in a browser),
``dph.settings`` (recipes), ``dph.integrations.trl`` and ``dph.integrations.verl``.

``import dph`` is instant: everything but nouns and errors is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dph.errors import (
    CheckpointError,
    DataError,
    DphError,
    ModelError,
    PoolError,
    SettingsError,
    StageError,
    TrainingError,
    VerifierError,
)
from dph.lazy import lazy_names
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict

if TYPE_CHECKING:
    from dph.divergences import Alpha, ForwardKL, JensenShannon, ReverseKL, make_divergence
    from dph.evaluation.evaluated_runs import compare
    from dph.evaluation.pass_at_k import pass_at_k
    from dph.grading.answers import grade_code, grade_math, grade_sql
    from dph.presampling.pool import load_pool
    from dph.runs.run import run
    from dph.settings import load_recipe
    from dph.tasks.problems import load_problems
    from dph.verifiers import make_verifier

__version__ = "0.1.0"

__all__ = [
    "Alpha",
    "CheckpointError",
    "Completion",
    "DataError",
    "DphError",
    "ForwardKL",
    "GradedCompletion",
    "JensenShannon",
    "ModelError",
    "Outcome",
    "PoolError",
    "Problem",
    "ReverseKL",
    "SettingsError",
    "StageError",
    "TrainingError",
    "Verdict",
    "VerifierError",
    "compare",
    "grade_code",
    "grade_math",
    "grade_sql",
    "load_pool",
    "load_problems",
    "load_recipe",
    "make_divergence",
    "make_verifier",
    "pass_at_k",
    "run",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Alpha": "dph.divergences",
        "ForwardKL": "dph.divergences",
        "JensenShannon": "dph.divergences",
        "ReverseKL": "dph.divergences",
        "compare": "dph.evaluation.evaluated_runs",
        "grade_math": "dph.grading.answers",
        "grade_code": "dph.grading.answers",
        "grade_sql": "dph.grading.answers",
        "load_pool": "dph.presampling.pool",
        "load_problems": "dph.tasks.problems",
        "load_recipe": "dph.settings",
        "make_divergence": "dph.divergences",
        "make_verifier": "dph.verifiers",
        "pass_at_k": "dph.evaluation.pass_at_k",
        "run": "dph.runs.run",
    },
)
