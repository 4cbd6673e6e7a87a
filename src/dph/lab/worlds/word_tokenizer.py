"""Word-level tokenizers of worlds: a token for each word of a closed vocabulary."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import PreTrainedTokenizerFast

from dph.model.new_tokenizer import new_tokenizer

PAD, BOS, EOS, UNKNOWN = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL = (PAD, BOS, EOS, UNKNOWN)
"""What every vocabulary begins with."""


def word_tokenizer(
    vocabulary: Sequence[str], pre_tokenizer: PreTokenizer
) -> PreTrainedTokenizerFast:
    """A tokenizer whose ids are the places in ``vocabulary``; a prompt begins with ``BOS``."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizer
    return with_special_tokens(backend)


def with_special_tokens(backend: Tokenizer) -> PreTrainedTokenizerFast:
    """``backend``, which has ``SPECIAL``, for transformers; a prompt begins with ``BOS``."""
    return new_tokenizer(backend, pad=PAD, bos=BOS, eos=EOS, unknown=UNKNOWN)
