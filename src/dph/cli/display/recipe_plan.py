"""What a recipe would do."""

from dph.recipe import Recipe, StoreSettings
from dph.recipe.objective import AnchorSettings, PenaltySettings, TermSettings
from dph.runs.layout import pool_directory, run_directory, store_directory

_VALUES = {
    "agreement": "agreement",
    "distinct": "agreement of different texts",
    "majority": "the vote of most answers",
    "shuffled": "agreement at random",
    "shuffled_distinct": "agreement of different texts at random",
    "correct": "correctness",
}
_CHOSEN = {"majority": "those of the largest class that agrees", "correct": "the correct ones"}


def stages(recipe: Recipe) -> list[str]:
    """One line for each stage that ``dph run`` would go through."""
    return [
        *([_presampling(recipe)] if recipe.needs_pool else []),
        *(_store(recipe, name) for name in recipe.used_stores),
        _training(recipe),
        *([_consolidation(recipe)] if recipe.consolidation.active else []),
        _evaluation(recipe),
    ]


def _presampling(recipe: Recipe) -> str:
    settings, directory = recipe.presample, run_directory(recipe, None)
    return (
        f"pre-sample: {settings.samples} samples a problem and a final one, near-perfect from "
        f"{settings.threshold} correct; pool in {pool_directory(recipe, directory)}"
    )


def _store(recipe: Recipe, name: str) -> str:
    store, directory = recipe.stores[name], run_directory(recipe, None)
    prompts = f"{'novel ' * store.novel}{store.prompts} prompts"
    return (
        f"store {name}: {store.answers} answers to each of the {prompts}{_tilt(store)}; in "
        f"{store_directory(recipe, directory, name)}"
    )


def _tilt(store: StoreSettings) -> str:
    if store.targets == "answers":
        return f", of which {_CHOSEN[store.values]} are learnt as they are"
    return f", tilted by {_VALUES[store.values]} ^ {store.tilt:g}" if store.tilt else ""


def _training(recipe: Recipe) -> str:
    train, objective = recipe.train, recipe.objective
    rehearsal = "".join(
        f" + {anchor.per_step or train.rehearsal_per_step} rehearsal samples{_of(anchor)} "
        f"({anchor.divergence}, eta {anchor.weight:g})"
        for anchor in objective.active_anchors.values()
    )
    penalty = "".join(
        f", {_name(term)} penalty {term.weight:g}{_parameters(term)}"
        for term in objective.active_penalties.values()
    )
    kind = objective.advantage.kind
    advantage = "" if kind == "group" else f", advantage {kind}{_parameters(objective.advantage)}"
    return (
        f"train: {train.steps} steps of {train.problems_per_step} problems x "
        f"{train.samples_per_problem} samples{_unlabelled(recipe)}{advantage}{rehearsal}{penalty}, "
        f"{train.minibatches} mini-batches x {train.epochs} epochs, "
        f"learning rate {train.learning_rate:g}"
    )


def _consolidation(recipe: Recipe) -> str:
    settings = recipe.consolidation
    store = recipe.stores[str(settings.store)]
    return (
        f"consolidate: {store.answers} answers of the trained policy to each of the "
        f"{store.prompts} prompts{_tilt(store)}; {settings.updates} updates of "
        f"{settings.rows} of them, learning rate "
        f"{settings.rate * recipe.train.learning_rate:g}"
    )


def _of(anchor: AnchorSettings) -> str:
    return f" of the last {anchor.recent} steps" if anchor.recent is not None else ""


def _unlabelled(recipe: Recipe) -> str:
    settings = recipe.self_consistency
    share = f" ({settings.problems_per_step} unlabelled, rewarded by {settings.reward})"
    return share if settings.active else ""


def _name(term: PenaltySettings) -> str:
    return "KL" if term.kind == "kl" else term.kind


def _parameters(term: TermSettings) -> str:
    values = ", ".join(str(value) for value in term.parameters.values() if value is not None)
    return f" ({values})" if values else ""


def _evaluation(recipe: Recipe) -> str:
    if not recipe.data.sets:
        return "evaluate: nothing, no set is named in [data.sets]"
    ks = ", ".join(str(k) for k in recipe.evaluate.k)
    names = ", ".join(recipe.data.sets)
    said = f"evaluate: {recipe.evaluate.samples} samples a problem, pass@{ks} on {names}"
    return f"{said}{_during(recipe)}"


def _during(recipe: Recipe) -> str:
    settings = recipe.evaluate
    if not settings.every:
        return ""
    during, names = settings.during, ", ".join(settings.during_sets(recipe.data.sets))
    return (
        f"; every {settings.every} steps of training {during.samples} samples to at most "
        f"{during.problems} problems of each of {names}"
    )
