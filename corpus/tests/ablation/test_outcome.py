"""Bits a byte by arm, their differences to the reference, power, and what follows."""

import pytest

from dph_corpus.ablation.outcome import outcome, power_of, tables

BITS = {"none": (3.0, 3.2), "general": (2.9, 3.1), "code": (3.1, 3.2)}


def rows(bits, split="report", languages=("python",)):
    return [
        {
            "model": "ngram",
            "arm": arm,
            "seed": seed,
            "split": split,
            "bits_per_byte": dict.fromkeys(languages, value),
        }
        for arm, values in bits.items()
        for seed, value in enumerate(values)
    ]


def lock(bits, **more):
    rule = {"arms": "filtering", "models": ["ngram"], "tokens": 1000, "margin": 0.01, "seeds": 2}
    pool = {"documents": 1, "bytes": 2_000_000, "tokens": 500}
    found = {"rule_sha256": "a", "rule": rule, "heldout": {"python": {}}, "power": {}}
    return {**found, "pools": dict.fromkeys(bits, pool)} | more


def test_differences_are_of_the_same_seed():
    found = outcome(lock(BITS), rows(BITS))
    ngram = found["models"]["ngram"]
    assert ngram["none"]["mean"]["mean"] == pytest.approx(3.1)
    assert ngram["general"]["python"]["difference"]["mean"] == pytest.approx(-0.1)
    low, high = ngram["general"]["mean"]["difference"]["ci95"]  # both seeds differ by as much
    assert high - low == pytest.approx(0, abs=1e-9)
    low, high = ngram["code"]["mean"]["difference"]["ci95"]  # 0.05 +- t(0.975, 1) * s / sqrt(2)
    assert (low, high) == pytest.approx((0.05 - 12.706 * 0.05, 0.05 + 12.706 * 0.05), abs=1e-3)
    lines = tables(found).splitlines()
    assert lines[2] == "| none | 1 | 2.00 | 2.00 | 3.100 |  |"
    assert lines[3] == "| general | 1 | 2.00 | 2.00 | 3.000 | -0.100 [-0.100, -0.100] |"
    verdicts = {each["comparison"]: each["verdict"] for each in found["findings"]}
    assert verdicts["general minus none"] == "better"
    assert verdicts["code minus none"] == "not decidable here"


def test_a_seed_that_an_arm_lacks_is_left_out_of_all():
    bits = BITS | {"code": (3.1, 3.2, 9.0)}
    assert outcome(lock(bits), rows(bits))["models"] == outcome(lock(BITS), rows(BITS))["models"]
    assert outcome(lock(BITS), rows(BITS)[:5])["models"] == {}


def test_the_mean_over_languages_gives_each_the_same_weight():
    mixed = rows(BITS, languages=("c",))
    for row in mixed:
        row["bits_per_byte"] = {"c": 1.0, "python": row["bits_per_byte"]["c"]}
    found = outcome(lock(BITS), mixed)
    assert found["models"]["ngram"]["general"]["mean"]["difference"]["mean"] == pytest.approx(-0.05)


def test_the_smallest_difference_follows_from_the_spread_of_development_seeds():
    bits = {"none": (3.0, 3.0, 3.0), "general": (2.9, 3.0, 3.1), "code": (3.0, 3.0, 3.0)}
    rule = {"arms": "filtering", "models": ["ngram"], "seeds": 5}
    found = power_of(rows(bits, "development"), rule)["ngram"]
    one = found["general minus none"]
    assert one["deviation"] == pytest.approx(0.1)
    assert one["smallest"] == pytest.approx((2.7764 + 0.9410) * 0.1 / 5**0.5, rel=1e-4)
    assert found["code minus none"]["smallest"] == 0
    assert power_of(rows(bits, "report"), rule) == {}
