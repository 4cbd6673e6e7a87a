"""DPH-RL inside unmodified TRL: ``DPHTrainer`` is ``trl.GRPOTrainer`` plus the rehearsal term.

TRL itself has no replay; ``DPHTrainer`` rehearses stored answers of the initial model.
``PassAtKCallback`` measures held-out problems while either of the two trains.

Needs the extra ``dph-rl[trl]``. docs/guides/cluster.md has a script and what was tested.
"""

from dph._base.provenance import install_command

try:
    import trl as _trl  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"dph.engines.trl needs TRL: {install_command('trl')} (trl>=1.12,<2)"
    ) from error

from dph.engines.trl.config import DPHConfig
from dph.engines.trl.dataset import problems_dataset, reward_function, trainer_arguments
from dph.engines.trl.heldout import PassAtKCallback
from dph.engines.trl.trainer import DPHTrainer

__all__ = [
    "DPHConfig",
    "DPHTrainer",
    "PassAtKCallback",
    "problems_dataset",
    "reward_function",
    "trainer_arguments",
]
