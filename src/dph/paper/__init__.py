"""The figures and tables of arXiv:2509.07430, made from run directories of one's own."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.paper.figures import Asked, Drawing, save_paper_figure
    from dph.paper.models import Model, Models, read_models
    from dph.paper.progress import MeasuredRuns, read_progress
    from dph.paper.tables import paper_table

__all__ = [
    "Asked",
    "Drawing",
    "MeasuredRuns",
    "Model",
    "Models",
    "paper_table",
    "read_models",
    "read_progress",
    "save_paper_figure",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Asked": "dph.paper.figures",
        "Drawing": "dph.paper.figures",
        "MeasuredRuns": "dph.paper.progress",
        "Model": "dph.paper.models",
        "Models": "dph.paper.models",
        "paper_table": "dph.paper.tables",
        "read_models": "dph.paper.models",
        "read_progress": "dph.paper.progress",
        "save_paper_figure": "dph.paper.figures",
    },
)
