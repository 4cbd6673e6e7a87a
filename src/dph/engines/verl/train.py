"""``python -m dph.engines.verl.train``: verl's training with rehearsal."""

import hydra
from omegaconf import DictConfig

from dph._processes.child import end_with_parent
from dph.engines.verl.launch import launch
from dph.engines.verl.settings import apply_terms, train_settings
from dph.errors import SettingsError
from dph.runs.presample.manifest import read_manifest

MODES = ("sync", "colocate_async")


def train(config: DictConfig) -> None:
    """Train with ``config``, verl's own plus the group ``dph``."""
    settings = train_settings(config)
    if settings.reads_pool:
        read_manifest(settings.pool)
    mode = config.trainer.v1.trainer_mode
    if mode not in MODES:
        raise SettingsError(f"trainer.v1.trainer_mode must be {' or '.join(MODES)}, got {mode!r}")
    apply_terms(config, settings.objective)  # what does not fit is told before Ray starts
    launch(config, trainer=f"dph_{mode}")


main = hydra.main(config_path="config", config_name="dph_train", version_base=None)(train)

if __name__ == "__main__":
    end_with_parent()
    main()
