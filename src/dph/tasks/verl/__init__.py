"""Problems as verl's data sets, and back."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verl.files import problems_to_verl, verl_to_problems
    from dph.tasks.verl.files import problem_of_row, verl_row

__all__ = [
    "problem_of_row",
    "problems_to_verl",
    "verl_row",
    "verl_to_problems",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "problem_of_row": "dph.tasks.verl.files",
        "problems_to_verl": "dph.tasks.verl.files",
        "verl_row": "dph.tasks.verl.files",
        "verl_to_problems": "dph.tasks.verl.files",
    },
)
