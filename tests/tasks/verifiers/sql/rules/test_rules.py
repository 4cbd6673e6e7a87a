from typing import get_args

import pyarrow.parquet as pq
import pytest

from dph.errors import SettingsError
from dph.recipe.data import DataSettings
from dph.records import Outcome
from dph.tasks.verifiers.sql.rules import RULES, sql_rule
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from shared_data import shared_data

OFFICIAL = {
    "spider": ("spider_official_keep_distinct", "spider_order_fragile"),
    "bird": ("bird_ex", "bird_order_fragile"),
    "bird_soft_f1": ("bird_soft_f1", "bird_order_fragile"),
    "cartesian": ("dph_reference_detail", "spider_order_fragile"),
}


def judge(rule, rows, predicted):
    databases = shared_data("spider/database")
    pairs = [
        SQLPair(f"{row['db_id']}/{row['db_id']}.sqlite", row["gold_sql"], row[predicted])
        for row in rows
    ]
    with SQLVerifier(databases=databases, rule=rule, workers=2, timeout=30.0) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


@pytest.mark.parametrize("rule", list(OFFICIAL))
def test_every_official_verdict_on_real_predictions_is_met(rule):
    column, fragile = OFFICIAL[rule]
    table = pq.read_table(shared_data("spider/scored_predictions_examples.parquet"))
    rows = [row for row in table.to_pylist() if not row[fragile]]
    verdicts = judge(rule, rows, "pred_sql")
    # The official scores are stored as 32-bit numbers, rounded to six digits.
    different = [
        (row["db_id"], row["pred_sql"], verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
        if abs(verdict.reward - row[column]) > 1e-6
    ]
    assert len(rows) > 2000
    assert different == []


@pytest.mark.parametrize("rule", list(RULES))
def test_the_gold_is_right_by_every_rule(rule):
    rows = pq.read_table(shared_data("spider/dev.parquet")).to_pylist()
    verdicts = judge(rule, rows, "gold_sql")
    assert [v.outcome for v in verdicts] == [Outcome.CORRECT] * 1034


def test_a_rule_is_found_by_its_name():
    assert all(sql_rule(name).name == name for name in RULES)
    with pytest.raises(SettingsError, match="'birds'; it is one of spider, bird"):
        sql_rule("birds")


def test_recipes_know_the_rules_of_the_registry():
    assert get_args(DataSettings.model_fields["sql_rule"].annotation) == tuple(RULES)
