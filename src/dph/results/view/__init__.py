"""``dph view``: the report's page served from run directories, whatever their size, as they grow.

Read-only. Needs the extra ``dph-rl[report]`` (Starlette, uvicorn and what a report needs).
"""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.results.view.app import Access, make_app, serve
    from dph.results.view.served_runs import ServedRuns

__all__ = ["Access", "ServedRuns", "make_app", "serve"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Access": "dph.results.view.app",
        "ServedRuns": "dph.results.view.served_runs",
        "make_app": "dph.results.view.app",
        "serve": "dph.results.view.app",
    },
)
