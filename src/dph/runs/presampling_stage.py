"""The pre-sampling stage of a run: a pool that fits the recipe, made or found."""

from pathlib import Path

from dph.files import only_writer
from dph.presampling.manifest import Manifest, read_manifest
from dph.presampling.pool import require_fit, require_free, require_whole
from dph.presampling.presample import ReferenceForward, presample
from dph.runs.layout import pool_directory
from dph.runs.progress import ProgressDisplay
from dph.runs.verifier_change import accepted_source
from dph.runs.workbench import Workbench


def presample_stage(bench: Workbench, directory: Path, progress: ProgressDisplay) -> Manifest:
    """Make the pool, or go on with a half-made one; a finished one is checked and kept.

    Raises:
        PoolError: there is a pool that was made from something else, or its place is taken.
        DataError: a prompt is empty, or is no chat where one is needed.
        SettingsError: a prompt and its answer do not fit the model's context, or vLLM is asked for
            and is not installed or has no CUDA device.
    """
    path, recipe = pool_directory(bench.recipe, directory), bench.recipe
    require_free(path)
    bench.require_engine()
    model = bench.load_model(recipe.model.path)
    with bench.drawing(model, recipe.model.path) as draw:
        source, rule = bench.source(model, draw), bench.rule()
        if (path / "manifest.json").exists():
            manifest = read_manifest(path / "manifest.json")
            source = accepted_source(bench, directory, source, manifest.source, pool=path)
            require_fit(path, manifest, source, rule)
            require_whole(path, manifest)
            return manifest
        bench.require_prompts_fit(
            model.config, bench.problems, max_tokens=draw.parameters.max_tokens
        )
        reference = ReferenceForward(
            model=model,
            pad_id=int(bench.tokenizer.pad_token_id),
            token_budget=recipe.train.microbatch_tokens,
            dtype=recipe.model.dtype,
        )
        total = len(bench.problems) * (source.samples + 1)
        with only_writer(path.parent), progress.task("pre-sampling", total, "samples") as advance:
            return presample(
                bench.problems,
                path,
                draw=draw,
                reference=reference,
                source=source,
                rule=rule,
                on_progress=lambda amount: advance(amount, ""),
            )
