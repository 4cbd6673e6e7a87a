"""A recipe's stages, one after another, in a run directory."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.runs.directory import RunDirectory
    from dph.runs.interpolation import interpolated
    from dph.runs.progress import ProgressDisplay, Silent
    from dph.runs.run import RunResult, run_stages
    from dph.runs.workbench import Workbench, open_workbench

__all__ = [
    "ProgressDisplay",
    "RunDirectory",
    "RunResult",
    "Silent",
    "Workbench",
    "interpolated",
    "open_workbench",
    "run_stages",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ProgressDisplay": "dph.runs.progress",
        "RunDirectory": "dph.runs.directory",
        "RunResult": "dph.runs.run",
        "Silent": "dph.runs.progress",
        "Workbench": "dph.runs.workbench",
        "interpolated": "dph.runs.interpolation",
        "open_workbench": "dph.runs.workbench",
        "run_stages": "dph.runs.run",
    },
)
