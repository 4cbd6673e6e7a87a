"""The examples of a recipe: that they can be had, and what they add to prompts."""

from collections.abc import Sequence
from dataclasses import replace

from dph.errors import DphError
from dph.recipe import Recipe
from dph.runs.preflight.data import NamedProblems
from dph.runs.preflight.findings import Findings
from dph.runs.shots import recipe_shots, require_no_shown_test


def check_shots(
    recipe: Recipe, named: Sequence[NamedProblems], findings: Findings
) -> list[NamedProblems]:
    """The problems as the model is asked them; what is wrong with the examples is found."""
    train = next((part.problems for part in named if part.key == "data.train"), None)
    if recipe.data.shots is None or train is None:
        return list(named)
    sets = [(part.key, part.problems) for part in named if part.key.startswith("data.sets.")]
    try:
        shots, left = recipe_shots(recipe, train)
        require_no_shown_test(shots, sets)
    except DphError as error:
        findings.errors.append(str(error))
        return list(named)
    assert shots is not None
    chat = recipe.data.chat is True
    kept = {part.key: part.problems for part in named} | {"data.train": left}
    return [
        replace(part, problems=[shots.before(each, chat=chat) for each in kept[part.key]])
        for part in named
    ]
