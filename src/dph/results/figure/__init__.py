"""The figures and tables of arXiv:2509.07430, made from your run directories."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.results.figure.figures import FigureRequest, PendingFigure, save_paper_figure
    from dph.results.figure.models import MeasuredRuns, Model, Models, read_models, read_progress
    from dph.results.figure.tables import paper_table

__all__ = [
    "FigureRequest",
    "MeasuredRuns",
    "Model",
    "Models",
    "PendingFigure",
    "paper_table",
    "read_models",
    "read_progress",
    "save_paper_figure",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FigureRequest": "dph.results.figure.figures",
        "PendingFigure": "dph.results.figure.figures",
        "MeasuredRuns": "dph.results.figure.models",
        "Model": "dph.results.figure.models",
        "Models": "dph.results.figure.models",
        "paper_table": "dph.results.figure.tables",
        "read_models": "dph.results.figure.models",
        "read_progress": "dph.results.figure.models",
        "save_paper_figure": "dph.results.figure.figures",
    },
)
