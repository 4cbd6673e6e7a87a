"""Whether cleaning a corpus pays: models of raw and cleaned text at equal tokens, held-out code."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.ablation.run import ablate
    from dph.ablation.settings import AblationSettings

__all__ = ["AblationSettings", "ablate"]

__getattr__, __dir__ = lazy_names(
    __name__, {"AblationSettings": "dph.ablation.settings", "ablate": "dph.ablation.run"}
)
