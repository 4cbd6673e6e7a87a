from pathlib import Path

from dph_corpus.rules.presets import PRESETS, load_preset, rules_document

PAGE = Path(__file__).parents[2] / "docs" / "corpus-rules.md"


def test_the_page_is_what_dph_corpus_rules_markdown_prints():
    assert PAGE.read_text(encoding="utf-8") == rules_document()


def test_every_rule_has_a_line():
    page = rules_document()
    for preset in PRESETS:
        for name, rule in load_preset(preset).rules.items():
            assert f"| `{name}` | " in page
            assert rule.catches
