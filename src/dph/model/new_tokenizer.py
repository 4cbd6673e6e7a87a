"""A tokenizer of our own making for transformers."""

from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast


def new_tokenizer(
    backend: Tokenizer, *, pad: str, bos: str, eos: str, unknown: str | None = None
) -> PreTrainedTokenizerFast:
    """``backend``, which has these special tokens; a text begins with ``bos``, padding is left."""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unknown,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
