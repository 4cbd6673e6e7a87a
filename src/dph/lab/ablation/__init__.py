"""Whether cleaning a corpus pays: models of raw and cleaned text at equal tokens, held-out code."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.lab.ablation.run import ablate
    from dph.lab.ablation.settings import AblationSettings

__all__ = ["AblationSettings", "ablate"]

__getattr__, __dir__ = lazy_names(
    __name__, {"AblationSettings": "dph.lab.ablation.settings", "ablate": "dph.lab.ablation.run"}
)
