import pytest

from dph.errors import SettingsError
from dph_corpus.documents import DocType, Document
from dph_corpus.rules.presets import PRESETS, load_preset, with_thresholds
from dph_corpus.rules.spec import filter_spec
from dph_corpus.rules.stage import FilterStage
from dph_corpus.stage_run import run_stage
from small_corpora import small_corpus

ENTROPY = "qsc_doc_entropy_unigram"
COMMENTS = "code_comments_as_lexed"


@pytest.mark.parametrize("preset", PRESETS)
def test_without_thresholds_a_preset_is_itself(preset):
    assert with_thresholds(load_preset(preset), {}) == load_preset(preset)


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
    told = {verdict.rule: verdict for verdict in FilterStage("fixed").judgement(document).verdicts}
    assert told[ENTROPY].drops
    value = told[ENTROPY].value
    for limit, drops in ((value - 0.01, False), (value + 0.01, True)):
        stage = FilterStage("fixed", {ENTROPY: f"< {limit}"})
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


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"qsc_doc_entropy": "< 1"}, "no rule 'qsc_doc_entropy'; did you mean"),
        ({f"{ENTROPY}.pyton": "< 1"}, "a kind of files is one of text, code, .*got 'pyton'"),
        ({f"{ENTROPY}.python": "< 1"}, f"{ENTROPY} does not read python: text_en, text_zh"),
        ({ENTROPY: "at most 1"}, "'> 0.5' or '< 2 or > 10', or '' .*got 'at most 1'"),
        ({ENTROPY: "< many"}, "got '< many'"),
    ],
)
def test_what_is_no_threshold_is_one_message(thresholds, message):
    with pytest.raises(SettingsError, match=message):
        filter_spec("fixed", thresholds)
