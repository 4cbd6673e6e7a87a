import json
from pathlib import Path

import pytest

from case_tables import each, table
from dph.errors import SettingsError
from dph_corpus.documents import language_of_path
from dph_corpus.rules.presets import (
    PRESETS,
    judge,
    kind_of_file,
    load_preset,
    parse_condition,
    rules_document,
    thinned_drops,
)
from dph_corpus.signals.view import FileView
from shared_data import shared_data


def own_rules(name):
    """The rules that a preset does not have from the one it was made from."""
    base = PRESETS[name]
    old = load_preset(base).rules if base else {}
    return [rule for rule in load_preset(name).rules.values() if old.get(rule.name) != rule]


ROWS = [(preset, rule) for preset in PRESETS for rule in own_rules(preset)]


@pytest.mark.parametrize(("preset", "rule"), ROWS, ids=[f"{p}-{r.name}" for p, r in ROWS])
def test_a_rule_fires_on_its_example_or_says_why_it_never_does(preset, rule):
    if rule.dead:
        assert not rule.example
        return
    text, language = rule.example * rule.repeat, language_of_path(rule.file)
    natural = "zh" if rule.file.startswith("zh/") else "en"
    view = FileView(text, rule.file, len(text.encode()), language.name, natural)
    found = judge(load_preset(preset), view, document_id="a", doc_type=language.doc_type.value)
    assert {v.rule: v.fires for v in found.verdicts}[rule.name]


def as_text(condition):
    words = {"drop_below": "<", "drop_above": ">", "drop_equal": "=="}
    return " or ".join(
        f"{sign} {condition[key]:.12g}" for key, sign in words.items() if key in condition
    )


def test_thresholds_are_the_released_ones():
    released = json.loads((shared_data("opencoder") / "rules.json").read_text())
    preset = load_preset("opencoder")
    for kind, of_kind in released["presets"].items():
        ours = {n: (c.text, r.thinned) for n, (r, c) in preset.of_kind(kind).items()}
        theirs = {
            name: (as_text(condition), condition.get("thinned", False))
            for name, condition in of_kind["rules"].items()
        }
        assert ours == theirs, kind
    dead = sorted(rule.name for rule in preset.rules.values() if rule.dead)
    assert dead == released["cannot_fire_as_shipped"]


def test_every_change_has_its_reason():
    for name, base in PRESETS.items():
        if base is not None:
            assert own_rules(name)
            assert all(rule.reason for rule in own_rules(name))
            assert not any(rule.dead for rule in load_preset(name).rules.values())


@each(("text", "repeat", "released", "file"), table("rules/cases.toml")["mended"])
def test_what_is_wrong_in_a_released_rule_is_mended(text, repeat, released, file):
    language = language_of_path(file)
    view = FileView(text * repeat, file, len(text * repeat), language.name)

    def firing(preset):
        found = judge(load_preset(preset), view, document_id="a", doc_type=language.doc_type.value)
        return {v.rule for v in found.verdicts if v.fires}

    fixed = load_preset("fixed")
    assert released in firing("opencoder")
    stands_in = {new for new, old in fixed.replaced.items() if old == released}
    assert stands_in or released in fixed.left_out
    assert not stands_in & firing("fixed")


def test_an_unknown_preset_is_refused_by_name():
    with pytest.raises(SettingsError, match="opencoder, fixed, sql; got 'paper'"):
        load_preset("paper")


@pytest.mark.parametrize(
    ("value", "holds"), [(1.9, True), (2.0, False), (10.0, False), (10.1, True), (None, False)]
)
def test_a_condition_holds_if_one_part_does_and_never_without_a_value(value, holds):
    assert parse_condition("< 2 or > 10").holds(value) is holds


def test_a_condition_in_other_words_is_refused():
    with pytest.raises(ValueError, match="compares by <, >, =="):
        parse_condition(">= 2")


@pytest.mark.parametrize(("file", "kind"), table("rules/cases.toml")["kinds"])
def test_the_kind_of_a_file_decides_its_rules(file, kind):
    assert kind_of_file(*file) == (kind or None)


def test_thresholds_read_as_families():
    rules = load_preset("opencoder").rules
    assert rules["qsc_code_num_chars"].thresholds() == (
        "< 50 (code but data); < 50 or > 5000 (data)"
    )


def test_the_coin_falls_in_four_of_five_cases_and_alike_every_time():
    ids = [f"repo/file{n}.py" for n in range(5000)]
    drops = [thinned_drops(i, "rule") for i in ids]
    # 0.8 plus or minus four standard deviations of 5,000 draws
    assert abs(sum(drops) / len(drops) - 0.8) < 4 * (0.16 / 5000) ** 0.5
    assert drops == [thinned_drops(i, "rule") for i in ids]


def test_the_coins_of_two_rules_are_independent():
    ids = range(5000)
    both = sum(thinned_drops(str(i), "a") and thinned_drops(str(i), "b") for i in ids) / 5000
    assert abs(both - 0.64) < 4 * (0.64 * 0.36 / 5000) ** 0.5


PAGE = Path(__file__).parents[2] / "docs" / "corpus-rules.md"


def test_the_page_is_what_dph_corpus_rules_markdown_prints():
    assert PAGE.read_text(encoding="utf-8") == rules_document()


def test_every_rule_has_a_line():
    page = rules_document()
    for preset in PRESETS:
        for name, rule in load_preset(preset).rules.items():
            assert f"| `{name}` | " in page
            assert rule.catches
