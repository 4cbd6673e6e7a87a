"""A tokenizer of our own making, as transformers sees it."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dph.model.loading import new_tokenizer

WORDS = {"<p>": 0, "<b>": 1, "<e>": 2, "<u>": 3, "one": 4, "two": 5}


def made(unknown=None):
    backend = Tokenizer(models.WordLevel(WORDS, unk_token="<u>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return new_tokenizer(backend, pad="<p>", bos="<b>", eos="<e>", unknown=unknown)


def test_a_text_begins_with_its_token_and_is_padded_on_the_left():
    rows = made()(["one two", "two"], padding=True)
    assert rows["input_ids"] == [[1, 4, 5], [0, 1, 5]]
    assert rows["attention_mask"] == [[1, 1, 1], [0, 1, 1]]
    assert set(rows) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("unknown", [None, "<u>"])
def test_it_is_the_same_when_it_was_saved(tmp_path, unknown):
    tokenizer = made(unknown)
    tokenizer.save_pretrained(tmp_path)
    again = PreTrainedTokenizerFast.from_pretrained(tmp_path, local_files_only=True)
    assert again("one three two")["input_ids"] == tokenizer("one three two")["input_ids"]
    assert (again.pad_token, again.bos_token, again.eos_token) == ("<p>", "<b>", "<e>")
    assert (again.unk_token, again.padding_side) == (unknown, "left")
