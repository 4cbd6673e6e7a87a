"""A recipe: one TOML file and dotted overrides, made into frozen, validated settings."""

from dph.settings.methods import METHODS
from dph.settings.recipe import (
    changed_settings,
    load_recipe,
    recipe_digest,
    recipe_toml,
    resolve_recipe,
    save_recipe,
)
from dph.settings.schema import (
    DataSettings,
    EvaluationSettings,
    ModelSettings,
    ObjectiveSettings,
    PresamplingSettings,
    Recipe,
    SamplingSettings,
    SetSettings,
    TrackingSettings,
    TrainingSettings,
    VLLMSettings,
)

__all__ = [
    "METHODS",
    "DataSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "PresamplingSettings",
    "Recipe",
    "SamplingSettings",
    "SetSettings",
    "TrackingSettings",
    "TrainingSettings",
    "VLLMSettings",
    "changed_settings",
    "load_recipe",
    "recipe_digest",
    "recipe_toml",
    "resolve_recipe",
    "save_recipe",
]
