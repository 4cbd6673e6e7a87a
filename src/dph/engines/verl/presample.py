"""``python -m dph.engines.verl.presample``: a pool, made on a Ray cluster."""

import hydra
from omegaconf import DictConfig

from dph._processes.child import end_with_parent
from dph.engines.verl.launch import launch
from dph.engines.verl.settings import presample_settings
from dph.runs.presample.pool import require_free


def presample(config: DictConfig) -> None:
    """Make the pool of ``data.train_files``."""
    require_free(presample_settings(config).pool)
    launch(config, trainer="dph_presample")


main = hydra.main(config_path="config", config_name="dph_presample", version_base=None)(presample)

if __name__ == "__main__":
    end_with_parent()
    main()
