"""A recipe's stages, one after another, in a run directory."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.runs.directory import RunDirectory
    from dph.runs.plan import RunPlan, open_plan
    from dph.runs.progress import ProgressDisplay, Silent
    from dph.runs.run import RunResult, run_stages
    from dph.runs.written_models import interpolated

__all__ = [
    "ProgressDisplay",
    "RunDirectory",
    "RunPlan",
    "RunResult",
    "Silent",
    "interpolated",
    "open_plan",
    "run_stages",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ProgressDisplay": "dph.runs.progress",
        "RunDirectory": "dph.runs.directory",
        "RunResult": "dph.runs.run",
        "Silent": "dph.runs.progress",
        "RunPlan": "dph.runs.plan",
        "interpolated": "dph.runs.written_models",
        "open_plan": "dph.runs.plan",
        "run_stages": "dph.runs.run",
    },
)
