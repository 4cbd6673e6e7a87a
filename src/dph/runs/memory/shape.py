"""The sizes of a model, from its config and the headers of its weight files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dph._base.files import read_json
from dph.errors import DataError, ModelError
from dph.recipe.adapter import ALL_LINEAR, AdapterSettings

_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What the memory of a decoder depends on; all sizes in numbers, not bytes.

    ``queries`` and ``keys`` are heads x size of a head. ``linear`` are (inputs, outputs) of every
    weight matrix inside the layers, by name.
    """

    parameters: int
    vocabulary: int
    hidden: int
    layers: int
    queries: int
    keys: int
    inner: int
    gated: bool
    linear: Mapping[str, tuple[int, int]]
    largest: int
    """Numbers in the largest tensor."""

    @property
    def head(self) -> int:
        """Numbers in the output layer."""
        return self.vocabulary * self.hidden

    def targets(self, adapter: AdapterSettings) -> list[tuple[int, int]]:
        """(inputs, outputs) of every matrix that gets an adapter."""
        names = adapter.targets
        return [
            size
            for name, size in self.linear.items()
            if names == ALL_LINEAR or name.removesuffix(".weight").rpartition(".")[2] in names
        ]

    def adapter_parameters(self, adapter: AdapterSettings) -> int:
        """Numbers that an adapter trains."""
        lengths = adapter.kind == "dora"
        return sum(
            adapter.rank * (inputs + outputs) + outputs * lengths
            for inputs, outputs in self.targets(adapter)
        )


def read_shape(directory: Path) -> ModelShape:
    """The sizes of the model in ``directory``. Weights are not read, only their headers.

    Raises:
        ModelError: a file is damaged, or the config does not say its sizes.
    """
    try:
        whole = read_json(directory / "config.json")
        config = whole.get("text_config", whole)
        shapes = _shapes(directory)
        hidden = int(_first(config, "hidden_size", "n_embd"))
        heads = int(_first(config, "num_attention_heads", "n_head"))
        head = int(config.get("head_dim") or hidden // heads)
        inner = _first(config, "intermediate_size", "n_inner", default=None) or 4 * hidden
        return ModelShape(
            parameters=sum(map(prod, shapes.values())),
            vocabulary=int(config["vocab_size"]),
            hidden=hidden,
            layers=int(_first(config, "num_hidden_layers", "n_layer")),
            queries=heads * head,
            keys=int(config.get("num_key_value_heads") or heads) * head,
            inner=int(inner),
            gated=any("gate_proj" in name or "gate_up_proj" in name for name in shapes),
            linear=_linear(shapes, transposed=config.get("model_type") == "gpt2"),
            largest=max(map(prod, shapes.values())),
        )
    except (DataError, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ModelError(f"{directory}: the sizes of the model are not known: {error}") from error


def _shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(directory.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118  # it is no mapping
                    shapes[name] = tuple(file.get_slice(name).get_shape())
        except SafetensorError as error:
            raise ValueError(f"{path.name} is damaged: {error}") from error
    if not shapes:
        raise ValueError("there are no weights (*.safetensors)")
    return shapes


def _linear(
    shapes: Mapping[str, tuple[int, ...]], *, transposed: bool
) -> dict[str, tuple[int, int]]:
    found = {}
    for name, shape in shapes.items():
        if len(shape) == 2 and name.endswith(".weight") and _LAYER.search(name):
            outputs, inputs = reversed(shape) if transposed else shape
            found[name] = (inputs, outputs)
    return found


def _first(config: Mapping[str, Any], *names: str, default: Any = ...) -> Any:
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is ...:
        raise KeyError(f"the config names none of {', '.join(names)}")
    return default
