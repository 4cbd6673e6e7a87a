"""These tests need verl; without it they are not collected (`make test-verl` has it)."""

import importlib
import importlib.util
import os
import warnings
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if importlib.util.find_spec("verl") is None:
    collect_ignore_glob = ["*.py"]
else:
    # Before verl is imported: its platform for machines without an accelerator (cpu_platform).
    os.environ.update(
        VERL_PLATFORM="dph_cpu",
        VERL_USE_EXTERNAL_MODULES="engines.verl.cpu_platform",
        HF_HUB_OFFLINE="1",
        RAY_USAGE_STATS_ENABLED="0",
        RAY_AUTH_MODE="disabled",  # else Ray writes a token into the home directory
        PYTHONPATH=os.pathsep.join(
            filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        ),
    )
    with warnings.catch_warnings():  # what they say while they are imported is theirs
        warnings.simplefilter("ignore")
        for module in ("verl.trainer.ppo.v1", "verl.experimental.reward_loop", "hydra"):
            importlib.import_module(module)


def pytest_collection_modifyitems(items):
    """Warnings of verl and of what it imports are theirs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def small_pool(tmp_path):
    """The directory of a pool of the tiny model."""
    from engines.verl.small_pool import write_small_pool  # noqa: PLC0415

    return write_small_pool(tmp_path / "pool")


@pytest.fixture
def composed():
    """Compose one of the package's configurations as its command does."""
    from hydra import compose, initialize_config_dir  # noqa: PLC0415

    import dph.engines.verl  # noqa: PLC0415

    directory = Path(dph.engines.verl.__file__).parent / "config"

    def make(name, *overrides):
        with initialize_config_dir(str(directory), version_base=None):
            return compose(name, overrides=list(overrides))

    return make
