"""The pre-sampling stage of a run: a pool that fits the recipe, made, split again or found."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from dph._base.files import make_directory, only_writer
from dph.errors import PoolError
from dph.model.hub import uses_hub
from dph.recipe import Recipe, save_recipe
from dph.runs.layout import latest_checkpoint, pool_directory
from dph.runs.presample.manifest import FORMAT, Manifest, Rule, Source, read_manifest
from dph.runs.presample.pool import (
    only_pool_writer,
    require_free,
    require_rule,
    require_source,
    require_whole,
)
from dph.runs.presample.presample import ReferenceForward, presample
from dph.runs.presample.splitting import StoredForm, split_again
from dph.runs.progress import ProgressDisplay
from dph.runs.stage_costs import timed
from dph.runs.verifier_change import accepted_source
from dph.runs.workbench import Workbench

# A run's recipe is left behind before anything is drawn, where it names the Hub.


def pin(recipe: Recipe, directory: Path) -> None:
    """Write the recipe with its commits into a run's directory that has none yet.

    Training writes it anyway. Here it comes before pools and stores, so that a run which is stopped
    while they are made goes on with the same model and data, whatever is pushed meanwhile.

    Raises:
        DataError: the directory cannot be written.
    """
    path = directory / "recipe.toml"
    if uses_hub(recipe) and not path.exists():
        make_directory(directory)
        save_recipe(recipe, path)


def presample_stage(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool, or continue a half-made one; a finished one is checked and kept.

    A finished pool of the same samples that was split by another rule is split again by this
    one, and nothing is drawn; not without ``may_split_again``, and never a pool that a run was
    trained on.

    Raises:
        PoolError: there is a pool that was made from something else, or its place is taken.
        DataError: a prompt is empty, or is not a chat where one is needed; or another process is
            making the pool.
        SettingsError: a prompt and its answer do not fit the model's context, or vLLM is asked for
            and is not installed or has no CUDA device.
    """
    path = pool_directory(bench.recipe, directory)
    require_free(path)
    if not _is_there(path):
        bench.require_engine()
    model = bench.load_model(bench.initial)
    expected = _Expected(
        bench=bench,
        directory=directory,
        path=path,
        source=bench.source(model, bench.draw(model)),
        rule=bench.rule(),
        may_split_again=may_split_again,
        runs=(directory, path.parent),
    )
    if found := expected.found():
        return found
    if not _is_there(path):
        limit = bench.recipe.sampling.max_tokens
        bench.require_prompts_fit(model.config, bench.problems, max_tokens=limit)
    with ExitStack() as held:
        held.enter_context(only_pool_writer(path))
        if path.resolve().parent == directory.resolve():  # the run's own: no other stage meanwhile
            held.enter_context(only_writer(directory))
        # Again, now that it stays as it is: another process may have made it since.
        if found := expected.found():
            return found
        pin(bench.recipe, directory)
        if _is_there(path):
            return _split_again(bench, model, expected, progress)
        with timed(path):
            return _make(bench, model, expected, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The pool that this run needs, and the runs that may have been trained on what is there."""

    bench: Workbench
    directory: Path
    path: Path
    source: Source
    rule: Rule
    may_split_again: bool
    runs: tuple[Path, Path]
    """This run, and the one whose own pool it is."""

    @property
    def trained(self) -> Path | None:
        """The newest checkpoint of one of the runs."""
        return next((c for run in self.runs if (c := latest_checkpoint(run / "checkpoints"))), None)

    def found(self) -> Manifest | None:
        """The manifest of a pool that can be used as it is; None where there is work to do."""
        if not _is_there(self.path):
            return None
        found = read_manifest(self.path / "manifest.json")
        source = accepted_source(
            self.bench, self.directory, self.source, found.source, pool=self.path
        )
        require_source(self.path, found, source)
        if self.may_split_again and found.rule != self.rule:
            return None
        require_rule(self.path, found, self.rule)
        if self.may_split_again and found.format != FORMAT and not self.trained:
            return None  # the same samples and the same rule, and ungradable problems apart
        require_whole(self.path, found)
        return found


def _is_there(path: Path) -> bool:
    return (path / "manifest.json").exists()


def _make(
    bench: Workbench,
    model: PreTrainedModel,
    expected: _Expected,
    progress: ProgressDisplay,
) -> Manifest:
    total = len(bench.problems) * (expected.source.samples + 1)
    with (
        bench.drawing(model, bench.initial) as draw,
        progress.task("pre-sampling", total, "samples") as advance,
    ):
        return presample(
            bench.problems,
            expected.path,
            draw=draw,
            reference=_reference(bench, model),
            source=expected.source,
            rule=expected.rule,
            on_progress=lambda amount: advance(amount, ""),
        )


def _split_again(
    bench: Workbench,
    model: PreTrainedModel,
    expected: _Expected,
    progress: ProgressDisplay,
) -> Manifest:
    path, rule, draw = expected.path, expected.rule, bench.draw(model)
    found = read_manifest(path / "manifest.json")
    change = _change(found.rule, rule)
    if trained := expected.trained:
        raise PoolError(
            f"a run was trained on the pool {path} ({trained}), so it is not split again "
            f"({change}): use another directory (--out), with a copy of the pool to avoid drawing "
            f"again"
        )
    progress.say(
        f"the pool {path} is finished: its samples are split again ({change}), nothing is drawn"
    )
    scored = StoredForm(
        encode=draw.encode,
        reference=_reference(bench, model),
        temperature=draw.parameters.temperature,
    )
    return split_again(bench.problems, path, found, scored=scored, rule=rule)


def _change(before: Rule, after: Rule) -> str:
    """Difference of the rule, ``threshold 7 -> 6``."""
    was, now = before.model_dump(), after.model_dump()
    changes = [f"{key} {was[key]} -> {now[key]}" for key in now if was[key] != now[key]]
    return ", ".join(changes) or f"to pool format {FORMAT}"


def _reference(bench: Workbench, model: PreTrainedModel) -> ReferenceForward:
    return ReferenceForward(
        model=model,
        pad_id=int(bench.tokenizer.pad_token_id),
        token_budget=bench.recipe.train.microbatch_tokens,
        dtype=bench.recipe.model.dtype,
    )
