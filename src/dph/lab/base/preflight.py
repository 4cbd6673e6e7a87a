"""The plan of a recipe of ``dph base`` or ``dph sft``, and faults in what it names."""

from collections.abc import Iterator
from pathlib import Path

from dph._base.files.rows import row_format
from dph.corpus import open_corpus
from dph.errors import DphError
from dph.lab.base.base import config_of, parameters_of, schedule_of
from dph.lab.base.recipes import BaseRecipe, LMRecipe, SFTRecipe
from dph.model.loading import load_config, load_tokenizer
from dph.runs.preflight.data import Findings


def plan(recipe: LMRecipe) -> list[str]:
    """The stages, a line each; nothing is opened."""
    if isinstance(recipe, BaseRecipe):
        return [*_base_plan(recipe)]
    return [
        f"{stage.name}: {stage.epochs} epochs over {len(stage.rows)} files of rows, "
        f"{stage.sequences_per_step} sequences of {stage.max_tokens} tokens a step, "
        f"{stage.schedule} from {stage.learning_rate:g}"
        for stage in recipe.stages
    ]


def preflight(recipe: LMRecipe) -> Findings:
    """Open all that the recipe names but weights. What is not there yet is a note."""
    found = Findings()
    if isinstance(recipe, BaseRecipe):
        _look_at_base(recipe, found)
    else:
        _look_at_sft(recipe, found)
    return found


def _base_plan(recipe: BaseRecipe) -> Iterator[str]:
    train, rates = recipe.train, schedule_of(recipe)
    a_step = train.sequences_per_step * train.context
    tokens = rates.steps * a_step
    if recipe.model is not None:
        # Who names a tokenizer by its directory says its vocabulary with it, or it is the default.
        size = parameters_of(config_of(recipe, vocabulary=recipe.tokenizer.vocabulary))
        yield f"model: {size / 1e6:.1f} M parameters, {6.0 * size * tokens:.2g} FLOP"
    else:
        yield f"model: continues {recipe.continued}"
    yield (
        f"corpus: {train.steps} steps of {a_step} tokens, {train.steps * a_step / 1e9:.4g} B; "
        f"warm-up over {rates.warmup}, then {train.learning_rate:g}"
    )
    if train.annealing_steps:
        yield (
            f"annealing: {train.annealing_steps} steps, "
            f"{train.annealing_steps * a_step / 1e9:.4g} B tokens, down to {train.final_rate:g}"
        )


def _look_at_base(recipe: BaseRecipe, found: Findings) -> None:
    for place in (recipe.data.corpus, recipe.data.annealing):
        if place is None:
            continue
        if not place.exists():
            found.notes.append(f"the corpus {place} does not exist yet")
            continue
        try:
            open_corpus(place)
        except DphError as error:
            found.errors.append(str(error))
    for model in (recipe.continued, recipe.tokenizer.path):
        if model is not None:
            _look_at_model(model, found)


def _look_at_sft(recipe: SFTRecipe, found: Findings) -> None:
    _look_at_model(recipe.model, found)
    for stage in recipe.stages:
        for path in stage.rows:
            try:
                row_format(path)
            except DphError as error:
                found.errors.append(str(error))
                continue
            if not path.is_file():
                found.notes.append(f"the rows {path} of stage {stage.name} do not exist yet")


def _look_at_model(path: Path, found: Findings) -> None:
    if not path.exists():
        found.notes.append(f"the model {path} does not exist yet")
        return
    try:
        load_tokenizer(path)
        load_config(path)
    except DphError as error:
        found.errors.append(str(error))
