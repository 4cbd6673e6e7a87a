"""The model card of a base model or a fine-tuned one."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import tomli_w
from huggingface_hub import ModelCardData

from dph import __version__
from dph.lab.base.recipes import LMRecipe


def lm_card(recipe: LMRecipe, facts: Mapping[str, Any], *, tags: Sequence[str] = ()) -> str:
    """The card as markdown, with the Hub's metadata before it.

    Args:
        recipe: what the model was made by; paths lose their directories.
        facts: what to say of data and result, by name.
        tags: more tags of the Hub.
    """
    metadata = ModelCardData(
        library_name="transformers", pipeline_tag="text-generation", tags=["dph", *tags]
    ).to_yaml()
    table = _without_directories(recipe.model_dump(mode="json", exclude_none=True))
    said = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    notes = f"\n> {recipe.notes}\n" if recipe.notes else ""
    return (
        f"---\n{metadata}\n---\n# {recipe.name}\n\nTrained by dph {__version__}.\n{notes}\n"
        f"## Made from\n\n{said}\n\n## Recipe\n\n```toml\n{tomli_w.dumps(table).strip()}\n```\n"
    )


_PLACES = ("corpus", "annealing", "path", "continued", "model", "rows")


def _without_directories(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _without_directories(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_directories(item, key) for item in value]
    return PurePath(value).name if key in _PLACES and isinstance(value, str) else value
