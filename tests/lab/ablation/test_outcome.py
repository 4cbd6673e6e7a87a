from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from dph.lab.ablation.run import ARMS, outcome, table
from dph.lab.ablation.settings import AblationSettings
from dph.lab.ablation.texts import Heldout


@dataclass(frozen=True)
class Pool:
    """As much of a corpus as is told."""

    documents: int

    @property
    def manifest(self):
        return SimpleNamespace(
            documents=self.documents, bytes=self.documents * 1000, content=f"c{self.documents}"
        )


def test_bits_become_bits_a_byte_and_differences_are_of_the_same_seed():
    bits = {"raw": (6.0, 6.4), "dedup": (5.8, 6.2), "filter": (6.2, 6.4), "both": (5.0, 6.4)}
    cells = {
        "ngram": {
            arm: [{"bits_per_token": one, "pool_tokens": 60_000} for one in bits[arm]]
            for arm in ARMS
        }
    }
    heldout = Heldout(np.zeros((2, 8), np.int64), documents=1, repeated=3, bytes_per_token=2.0)
    pools = {arm: Pool(number + 1) for number, arm in enumerate(ARMS)}
    found = outcome(AblationSettings(seeds=2, models=("ngram",)), pools, heldout, cells)
    ngram = found["models"]["ngram"]
    assert ngram["raw"]["mean"] == pytest.approx(3.1)
    assert ngram["dedup"]["difference"]["mean"] == pytest.approx(-0.1)
    low, high = ngram["dedup"]["difference"]["ci95"]  # both seeds differ by as much
    assert high - low == pytest.approx(0, abs=1e-9)
    low, high = ngram["filter"]["difference"]["ci95"]  # 0.05 +- t(0.975, 1) * 0.0707 / sqrt(2)
    assert (low, high) == pytest.approx((0.05 - 12.706 * 0.05, 0.05 + 12.706 * 0.05), abs=1e-3)
    rows = table(found).splitlines()
    assert rows[2] == "| raw | 1 | 0.00 | 2.00 | 3.100 |  |"
    assert rows[3] == "| dedup | 2 | 0.00 | 2.00 | 3.000 | -0.100 [-0.100, -0.100] |"
