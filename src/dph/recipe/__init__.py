"""A recipe: one TOML file and dotted overrides, made into frozen, validated settings."""

from dph.recipe.data import DataSettings, EvaluationSettings, SetSettings
from dph.recipe.methods import METHODS, STRENGTHS
from dph.recipe.objective import ObjectiveSettings
from dph.recipe.recipe import (
    changed_settings,
    load_recipe,
    merged,
    recipe_digest,
    recipe_toml,
    resolve_recipe,
    save_recipe,
)
from dph.recipe.schema import Recipe
from dph.recipe.tables import (
    ModelSettings,
    PresamplingSettings,
    SamplingSettings,
    SelfConsistencySettings,
    TrackingSettings,
    TrainingSettings,
    VLLMSettings,
)

__all__ = [
    "METHODS",
    "STRENGTHS",
    "DataSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "PresamplingSettings",
    "Recipe",
    "SamplingSettings",
    "SelfConsistencySettings",
    "SetSettings",
    "TrackingSettings",
    "TrainingSettings",
    "VLLMSettings",
    "changed_settings",
    "load_recipe",
    "merged",
    "recipe_digest",
    "recipe_toml",
    "resolve_recipe",
    "save_recipe",
]
