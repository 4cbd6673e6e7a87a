"""A recipe's stages, one after another, in a run directory."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.runs.directory import RunDirectory
    from dph.runs.job import RunJob
    from dph.runs.progress import ProgressDisplay, Silent
    from dph.runs.run import RunResult, run_stages
    from dph.runs.written_models import interpolated

__all__ = [
    "ProgressDisplay",
    "RunDirectory",
    "RunJob",
    "RunResult",
    "Silent",
    "interpolated",
    "run_stages",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "RunJob": "dph.runs.job",
        "ProgressDisplay": "dph.runs.progress",
        "RunDirectory": "dph.runs.directory",
        "RunResult": "dph.runs.run",
        "Silent": "dph.runs.progress",
        "interpolated": "dph.runs.written_models",
        "run_stages": "dph.runs.run",
    },
)
