import re
from pathlib import Path

import pytest

from dph.errors import SettingsError
from lab import study as study_package
from lab.study.planner import Planner
from lab.study.settings import load_study
from small_study import RULE, STUDY


def test_the_rule_may_be_a_table_of_the_study(write):
    text = STUDY.replace('rule = "rule.toml"', "") + '[rule.choose]\nmetric = "mean"\n'
    study = load_study(write(text))
    assert study.rule.choose.metric == "mean"
    other = load_study(write(text.replace('"mean"', '"greedy"')))
    assert study.rule_sha256 != other.rule_sha256
    assert study.rule_sha256 == load_study(write(text + "# a remark\n")).rule_sha256


FROM = "interpolate = [0.5]\ninterpolate_from = "


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("seeds_report = [0, 1, 2]", "", "study.seeds_report is missing"),
        ("seeds_report = [0, 1, 2]", "seeds_report = [0, 100]", "100 is one of seeds_development"),
        (
            "seeds_report = [0, 1, 2]",
            "seeds_report = [0, 0]",
            "seeds_report names 0 more than once",
        ),
        ("seeds_report", "seed_report", "unknown key study.seed_report; did you mean seeds_report"),
        ("strengths = [0.3, 1.0]", "strength = [0.3]", "unknown key methods.1.strength; did you"),
        ("strengths = [0.3, 1.0]", "strengths = [0.3, 0.3]", "strengths names a value more than"),
        ("strengths = [0.3, 1.0]", "strengths = [-1.0]", "greater than or equal to 0, got -1.0"),
        ('name = "rkl"', 'name = "ppo"', "methods.2.name: unknown method 'ppo'; choose from grpo"),
        ('name = "rkl"', 'name = "dapo"', "dapo has no strength to set"),
        ('name = "rkl"', 'name = "rkl"\nlabel = "GRPO"', "two methods have the label 'GRPO'"),
        ('name = "rkl"', 'name = "rkl"\nlabel = "base"', "'base' is the initial policy's"),
        ("strengths = [0.1]", 'strength_of = "dph_f"', "cannot take the strength of 'dph_f'"),
        ("strengths = [0.1]", FROM + "40", "no checkpoint to interpolate from after step 40"),
        ("strengths = [0.1]", FROM + "15", "choose a multiple of 10 below 40"),
        ("[[worlds]]", 'beside = ["x"]\n[[worlds]]', "no method has the label 'x', only GRPO"),
        ("strengths = [0.1]", 'strength_of = "x"', "no method has the label 'x', only GRPO, dph_f"),
        ("strengths = [0.1]", 'strengths = [1]\nstrength_of = "dph_f"', "strengths or strength_of"),
        ('rule = "rule.toml"', "", "rule is missing"),
        ('rule = "rule.toml"', 'rule = "no.toml"', "cannot read the rule .*no.toml"),
        ('[[worlds]]\ntask = "sql"', "", "at least one of .*worlds.* or .*recipes"),
        ("seeds_development = [100, 101]", "", "'GRPO' has several values to choose from"),
        ("[study]", "[study", "is not valid TOML"),
    ],
)
def test_a_mistake_in_the_study_is_named(write, before, after, message):
    assert before in STUDY
    with pytest.raises(SettingsError, match=message):
        load_study(write(STUDY.replace(before, after, 1)))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"greedy + pass@16"', '"greedy + pas@16"', "unknown metric 'pas@16'; there are greedy"),
        ('"pass@16"', '"pass@0"', "unknown metric 'pass@0'"),
        ("[choose]", '[choose]\nmetric = "matched@16"', "matched@16 is of two methods, not of one"),
        ('"pass@16"', '"matched@16 + mean"', "unknown metric 'matched@16'"),
        (
            'b = "base"',
            'b = "dapo"',
            "compares 'dapo', which is not the label of a method; .* base, GRPO",
        ),
        ('b = "base"', 'b = "dph_f"', "a comparison needs two methods, got a = b = 'dph_f'"),
        ('"greater"', '"better"', "compare.0.alternative: .* got 'better'"),
        ("[choose]", "[chose]", "unknown key chose; did you mean choose"),
        ("[choose]", "[choose]\ntie = -1", "choose.tie: .* got -1"),
    ],
)
def test_a_mistake_in_the_rule_is_named(write, before, after, message):
    assert before in RULE
    with pytest.raises(SettingsError, match=message):
        load_study(write(rule=RULE.replace(before, after, 1)))


def test_a_wrong_element_of_a_list_is_told_once(write):
    with pytest.raises(SettingsError, match=r"methods\.2\.strengths\.0: [^;]*got nan$"):
        load_study(write(STUDY.replace("strengths = [0.1]", "strengths = [nan]")))


def test_the_study_of_the_page_is_valid(tmp_path):
    page = Path(study_package.__file__).with_name("README.md").read_text(encoding="utf-8")
    study, rule = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "rule.toml").write_text(rule)
    study = re.sub(r"\[\[recipes\]\].*?\n\n", "", study, flags=re.DOTALL)  # a file of the reader's
    (tmp_path / "STUDY.toml").write_text(study)
    loaded = load_study(tmp_path / "STUDY.toml")
    assert Planner(loaded).plan({}).total > 10
    assert loaded.rule.compare[0].world == "sql"
