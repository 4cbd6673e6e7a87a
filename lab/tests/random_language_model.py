"""A small random model in the place of SmolLM2, with a token for each byte."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lab.smollm2 import DIGESTS, VARIABLE

__all__ = ["language_model", "language_model_is_found"]


def byte_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*letters, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", bos_token="<end>"
    )


@pytest.fixture(scope="session")
def language_model(tmp_path_factory):
    """A directory as ``make smollm2`` leaves one, of a model that knows nothing."""
    directory = tmp_path_factory.mktemp("language_model")
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        **{f"{name}_token_id": tokenizer.eos_token_id for name in ("bos", "eos", "pad")},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / DIGESTS).write_text("")
    return directory


@pytest.fixture(autouse=True)
def language_model_is_found(language_model, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(language_model))
