"""The tokenizer loses nothing, and every answer of a domain is equally long."""

from random import Random

import pytest

from lab.worlds.countdown.base_model import vocabulary
from lab.worlds.countdown.kind import MAX_TOKENS
from lab.worlds.countdown.world import OTHERS, TRAINED, draw_puzzle


@pytest.mark.parametrize(("domain", "prompt_tokens", "tokens"), [(TRAINED, 8, 18), (OTHERS, 7, 12)])
def test_decoding_gives_back_every_prompt_and_answer(
    countdown_tokenizer, domain, prompt_tokens, tokens
):
    rng = Random(0)
    for _ in range(50):
        puzzle, derivation = draw_puzzle(domain, rng)
        asked = countdown_tokenizer(puzzle.prompt)["input_ids"]
        said = countdown_tokenizer(derivation, add_special_tokens=False)["input_ids"]
        assert (len(asked), len(said) + 1) == (prompt_tokens, tokens)
        for ids, text in ((asked, puzzle.prompt), (said, derivation)):
            assert countdown_tokenizer.unk_token_id not in ids
            assert countdown_tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokens <= MAX_TOKENS


def test_special_tokens_come_first_and_every_token_once():
    words = vocabulary()
    assert words[:4] == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert len(set(words)) == len(words) == 4 + 4 + 4 + 99
