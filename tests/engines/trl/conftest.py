"""These tests need TRL, peft and minutes: `make test-trl` asks for them, by DPH_TEST_TRL."""

import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if importlib.util.find_spec("trl") is None or not os.environ.get("DPH_TEST_TRL"):
    collect_ignore_glob = ["*.py"]
else:
    # Before trl is imported: it then neither asks the hub nor reports to it.
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"


def pytest_collection_modifyitems(items):
    """TRL 1.16 uses names that newer releases of transformers 5 announce to remove."""
    for item in items:
        if HERE in item.path.parents:
            theirs = "ignore:.*will be removed in v6:FutureWarning"
            item.add_marker(pytest.mark.filterwarnings(theirs))


@pytest.fixture
def directory(tmp_path):
    """A directory with the small world's pool in it."""
    from engines.trl.small import write_small_pool  # noqa: PLC0415  # TRL may be absent

    write_small_pool(tmp_path / "pool")
    return tmp_path
