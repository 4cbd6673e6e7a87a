"""Word-level tokenizers of worlds: a token for each word of a closed vocabulary."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, processors
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import PreTrainedTokenizerFast

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
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, backend.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
