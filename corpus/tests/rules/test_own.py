from dataclasses import replace

import pytest

from case_tables import table
from dph.errors import DataError, SettingsError
from dph_corpus.documents import DocType, Document
from dph_corpus.rules.own import open_preset, read_preset
from dph_corpus.rules.presets import load_preset, with_thresholds
from dph_corpus.rules.stage import FilterStage, filter_spec
from dph_corpus.stage_run import run_stage
from dph_corpus.tables import read_table
from small_corpora import dropped, small_corpus

SIGNALS = """\
def share_of_tabs(view):
    return view.text.count("\\t") / len(view.text) if view.text else None
"""
RULES = """\
[[rule]]
name = "tabs"
signal = "tab_signals:share_of_tabs"
drop = { code = "> 0.5" }
catches = "code that is mostly indentation"
"""


def rules_file(tmp_path, text, name="mine.toml"):
    (tmp_path / "tab_signals.py").write_text(SIGNALS)
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def code(name, text):
    return Document.of(text, id=name, path=name, language="lua", doc_type=DocType.CODE)


DOCUMENTS = [code("tabs.lua", "\t\t\tx"), code("plain.lua", "x = 1"), code("empty.lua", "")]


def test_a_rule_by_import_path_drops_what_its_signal_says(tmp_path):
    corpus = small_corpus(tmp_path / "in", DOCUMENTS)
    made = run_stage(filter_spec(rules_file(tmp_path, RULES)), corpus, tmp_path / "out", workers=2)
    assert {d.id for d in made.documents()} == {"plain.lua", "empty.lua"}
    (row,) = dropped(made).values()
    assert (row["reason"], row["value"], row["threshold"]) == ("tabs", 0.75, "> 0.5")
    kinds = {row["kind"] for row in read_table(tmp_path / "out" / "verdicts.parquet")}
    assert kinds == {"others"}


def test_without_changes_a_file_is_its_base_and_thresholds_are_those_of_the_option(tmp_path):
    same = read_preset(tmp_path / rules_file(tmp_path, 'base = "sql"\n'))
    assert same.rules == load_preset("sql").rules
    text = 'base = "fixed"\n[thresholds]\n"code_comments_as_lexed.python" = "> 0.1"\n'
    found = open_preset(rules_file(tmp_path, text))
    own = {"code_comments_as_lexed.python": "> 0.1"}
    assert found.rules == open_preset("fixed", own).rules


def test_a_row_of_the_bases_name_changes_what_it_says_of_the_rule_and_no_more(tmp_path):
    text = 'base = "fixed"\n[[rule]]\nname = "python_parses"\ndrop = { python = "== 0" }\n'
    before = load_preset("fixed").rules["python_parses"]
    assert read_preset(tmp_path / rules_file(tmp_path, text)).rules["python_parses"] == before
    text += 'thinned = true\ncatches = "Python 2"\n'
    changed = read_preset(tmp_path / rules_file(tmp_path, text)).rules["python_parses"]
    assert changed == replace(before, thinned=True, catches="Python 2")
    assert not before.thinned
    text = 'base = "fixed"\n[[rule]]\nname = "python_parses"\nthinned = true\n'
    changed = read_preset(tmp_path / rules_file(tmp_path, text)).rules["python_parses"]
    assert changed == replace(before, thinned=True)
    with pytest.raises(SettingsError, match="'python_parses' occurs twice"):
        read_preset(tmp_path / rules_file(tmp_path, text + text.removeprefix('base = "fixed"\n')))


def test_the_manifest_names_content_and_code_and_no_path(tmp_path):
    path = rules_file(tmp_path, RULES)
    spec = filter_spec(path)
    assert str(tmp_path) not in str(spec.key())
    assert spec.settings == {"preset": "mine"}
    other = tmp_path / "other"
    other.mkdir()
    assert filter_spec(rules_file(other, RULES)).key() == spec.key()
    (other / "tab_signals.py").write_text(SIGNALS + "# changed\n")
    assert filter_spec(str(other / "mine.toml")).key() != spec.key()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rules: name a base"),
        ('bass = "fixed"', "unknown key 'bass'; keys are base, thresholds, rule"),
        ('base = "paper"', "base must be one of opencoder, fixed, sql, got 'paper'"),
        ('base = "fixed"\n[thresholds]\nnone = "> 1"', "mine has no rule 'none'"),
        ('base = "fixed"\n[thresholds]\npython_parses = 0.5', "must be a text such as '> 0.5'"),
        ('[[rule]]\nname = "a"\ndrop = {}', "rule a needs a signal"),
        (RULES.replace("tab_signals", "nowhere"), "cannot import 'nowhere'"),
        (RULES.replace('{ code = "> 0.5" }', '{ cod = "> 0.5" }'), "unknown kinds: .'cod'"),
        (RULES.replace("> 0.5", ">= 0.5"), "a condition compares by"),
        (RULES + RULES, "the rule 'tabs' occurs twice"),
        (RULES.replace("drop =", "drops ="), "unknown key 'drops'"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_message(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        filter_spec(rules_file(tmp_path, text))


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path):
    for path in (rules_file(tmp_path, "a = "), str(tmp_path / "none.toml")):
        with pytest.raises(DataError, match="cannot read the rules"):
            filter_spec(path)


ENTROPY = "qsc_doc_entropy_unigram"
COMMENTS = "code_comments_as_lexed"


def test_a_kind_wins_over_its_family_and_that_over_the_rule():
    preset = load_preset("fixed")
    found = with_thresholds(
        preset,
        {f"{COMMENTS}.python": "> 0.1", COMMENTS: "> 0.9", f"{COMMENTS}.code": "> 0.5 or < 0.01"},
    ).rules[COMMENTS]
    assert found.conditions["python"].text == "> 0.1"
    assert found.conditions["java"].text == "> 0.5 or < 0.01"
    assert set(found.conditions) == set(preset.rules[COMMENTS].conditions)
    assert preset.rules[COMMENTS].conditions["python"].text == "> 0.8"


def test_an_empty_condition_leaves_a_rule_out():
    found = with_thresholds(load_preset("fixed"), {f"{ENTROPY}.text_en": ""}).rules[ENTROPY]
    assert set(found.conditions) == {"text_zh"}
    assert with_thresholds(load_preset("fixed"), {ENTROPY: ""}).rules[ENTROPY].conditions == {}


def test_a_threshold_decides_what_is_dropped():
    text = "on and off, " * 40
    document = Document.of(
        text, id="a/notes.txt", path="notes.txt", language="text", doc_type=DocType.TEXT
    )
    plain = FilterStage({"preset": "fixed"})
    told = {verdict.rule: verdict for verdict in plain.judgement(document).verdicts}
    assert told[ENTROPY].drops
    value = told[ENTROPY].value
    for limit, drops in ((value - 0.01, False), (value + 0.01, True)):
        stage = FilterStage({"preset": "fixed", "thresholds": {ENTROPY: f"< {limit}"}})
        (verdict,) = [v for v in stage.judgement(document).verdicts if v.rule == ENTROPY]
        assert (verdict.drops, verdict.threshold) == (drops, f"< {limit}")


def test_the_manifest_says_the_thresholds_and_others_are_another_corpus(tmp_path):
    document = Document.of("x = 1\n", id="a.py", path="a.py", language="python")
    corpus = small_corpus(tmp_path / "in", [document])
    plain = run_stage(filter_spec("fixed"), corpus, tmp_path / "out")
    assert plain.manifest.history[-1]["settings"] == {"preset": "fixed"}
    own = {ENTROPY: "< 1"}
    found = run_stage(filter_spec("fixed", own), corpus, tmp_path / "out")
    assert found.manifest.history[-1]["settings"] == {"preset": "fixed", "thresholds": own}


@pytest.mark.parametrize(("thresholds", "message"), table("rules/cases.toml")["thresholds"])
def test_what_is_no_threshold_is_one_message(thresholds, message):
    with pytest.raises(SettingsError, match=message):
        filter_spec("fixed", thresholds)
