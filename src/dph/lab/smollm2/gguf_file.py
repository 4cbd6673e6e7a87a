"""A model in GGUF format: what its file says of it, and its weights as float32."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dph.errors import DataError, SettingsError

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
            raise DataError(f"the model file says nothing of {name}")
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
