"""Reinforcement learning with verifiable rewards that keeps what the model already could.

From a notebook:

* grade answers: ``grade_sql``, ``grade_math``, ``grade_code``, ``make_verifier``
* train: ``load_recipe``, ``run_verifier``, ``run`` (all stages), ``presample``, ``evaluate``
* look at runs: ``load_run`` (tables, a verdict), ``compare``, ``diagnose``, ``report``, ``plot``
* measure: ``pass_at_k``; read: ``load_pool``, ``load_problems``
* divergences: ``ForwardKL``, ``JensenShannon``, ``Alpha``, ``ReverseKL``, ``make_divergence``
* nouns: ``Problem``, ``Completion``, ``Outcome``, ``Verdict``, ``GradedCompletion``
* errors, all below ``DphError``: ``SettingsError``, ``DataError``, ``ModelError``, ``PoolError``,
  ``CheckpointError``, ``TrainingError``, ``StageError``, ``VerifierError``

Packages, each with its own ``__all__``: ``dph.loss.divergences`` and ``dph.loss.objectives`` (the
loss), ``dph.tasks.verifiers`` and ``dph.tasks.grading`` (grading an answer), ``dph.tasks`` (data
sets as problems), ``dph.model.sampler`` and ``dph.model.forward`` (sampling, log-probs),
``dph.runs.presample``, ``dph.runs.train``, ``dph.runs.evaluate``, ``dph.runs`` (the stages),
``dph.recipe`` (recipes), ``dph.engines.trl`` and ``dph.engines.verl``. Modules:
``dph.results.diagnosis.run_diagnosis`` (what a run lost), ``dph.results.charts.tables``,
``dph.results.plot`` (pictures) and ``dph.results.report.page`` (reports for a browser).

``import dph`` is instant: everything but nouns and errors is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names
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
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict

if TYPE_CHECKING:
    from dph.loss.divergences import Alpha, ForwardKL, JensenShannon, ReverseKL, make_divergence
    from dph.recipe import load_recipe
    from dph.results import plot
    from dph.results.diagnosis.run_diagnosis import diagnose
    from dph.results.notebook import load_run, report
    from dph.runs.answers import run_verifier
    from dph.runs.evaluate.evaluated_runs import compare
    from dph.runs.evaluate.metrics import pass_at_k
    from dph.runs.presample.pool import load_pool
    from dph.runs.run import evaluate, presample, run
    from dph.tasks.grading.rows import grade_code, grade_math, grade_sql
    from dph.tasks.problems import load_problems
    from dph.tasks.verifiers import make_verifier

    # For type checkers, editors and the documentation. At run time ``help(dph)`` would write out
    # every class because of it: 2,000 lines in place of a table of contents.
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
        "diagnose",
        "evaluate",
        "grade_code",
        "grade_math",
        "grade_sql",
        "load_pool",
        "load_problems",
        "load_recipe",
        "load_run",
        "make_divergence",
        "make_verifier",
        "pass_at_k",
        "plot",
        "presample",
        "report",
        "run",
        "run_verifier",
    ]

__version__ = "0.1.0"


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Alpha": "dph.loss.divergences",
        "ForwardKL": "dph.loss.divergences",
        "JensenShannon": "dph.loss.divergences",
        "ReverseKL": "dph.loss.divergences",
        "compare": "dph.runs.evaluate.evaluated_runs",
        "diagnose": "dph.results.diagnosis.run_diagnosis",
        "evaluate": "dph.runs.run",
        "grade_math": "dph.tasks.grading.rows",
        "grade_code": "dph.tasks.grading.rows",
        "grade_sql": "dph.tasks.grading.rows",
        "load_pool": "dph.runs.presample.pool",
        "load_problems": "dph.tasks.problems",
        "load_recipe": "dph.recipe",
        "load_run": "dph.results.notebook",
        "make_divergence": "dph.loss.divergences",
        "make_verifier": "dph.tasks.verifiers",
        "pass_at_k": "dph.runs.evaluate.metrics",
        "plot": "dph.results.plot",
        "presample": "dph.runs.run",
        "report": "dph.results.notebook",
        "run": "dph.runs.run",
        "run_verifier": "dph.runs.answers",
    },
)
