from dph_corpus.base.checkpointed import lm_card
from small_lm import base_recipe


def test_the_card_says_what_was_made_from_what_without_places(tmp_path):
    recipe = base_recipe(tmp_path / "deep" / "docs")
    card = lm_card(recipe, {"parameters": 12, "content": "`abc`"}, tags=["base-model"])
    assert card.startswith("---\n")
    assert "- parameters: 12\n- content: `abc`" in card
    assert 'corpus = "docs"' in card
    assert str(tmp_path) not in card
    assert "- base-model" in card
