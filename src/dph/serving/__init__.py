"""``dph view``: the report's page served from run directories, whatever their size, as they grow.

Read-only. Needs the extra ``dph-rl[report]`` (Starlette, uvicorn and what a report needs).
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.serving.app import make_app
    from dph.serving.guard import Access
    from dph.serving.served_runs import ServedRuns
    from dph.serving.server import serve

__all__ = ["Access", "ServedRuns", "make_app", "serve"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Access": "dph.serving.guard",
        "ServedRuns": "dph.serving.served_runs",
        "make_app": "dph.serving.app",
        "serve": "dph.serving.server",
    },
)
