"""The tokens of some evaluated answers, scored by the evaluated model and by the initial policy."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from transformers import PreTrainedModel

from dph.model.fingerprint import directory_fingerprint
from dph.model.forward.compared import compared_tokens
from dph.recipe import recipe_digest
from dph.runs.evaluate.evaluate import EvaluationSet
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.evaluate.token_details import TokenReader, keep_token_details
from dph.runs.evaluate.tokens_file import TOKENS_FILE
from dph.runs.progress import ProgressDisplay
from dph.runs.workbench import Workbench


def keep_tokens(
    bench: Workbench,
    directory: Path,
    progress: ProgressDisplay,
    sets: Sequence[EvaluationSet],
    samples: pa.Table,
    *,
    weights: PreTrainedModel,
    seed: int,
) -> None:
    """Write ``tokens.parquet`` beside ``samples.parquet``, whose graded answers are ``samples``.

    Raises:
        ModelError: the initial policy cannot be loaded.
    """
    recipe = bench.recipe
    initial = bench.load_model(bench.initial)
    compare = partial(
        compared_tokens,
        weights,
        initial,
        temperature=recipe.evaluate.temperature,
        pad_id=int(bench.tokenizer.pad_token_id),
        token_budget=recipe.train.microbatch_tokens,
        dtype=recipe.model.dtype,
        sharing=recipe.train.shared_prompts,
    )
    problems = sum(len(chosen.problems) for chosen in sets)
    with progress.task(f"tokens of {directory.name}", problems, "problems") as advance:
        keep_token_details(
            directory / TOKENS_FILE,
            sets,
            samples,
            TokenReader(compare=compare, piece=lambda token: str(bench.tokenizer.decode([token]))),
            samples=recipe.evaluate.token_details,
            seed=seed,
            digest=recipe_digest(
                samples_digest(directory / "samples.parquet") or "",
                directory_fingerprint(bench.initial),
                recipe.evaluate.token_details,
            ),
            on_progress=lambda amount: advance(amount, ""),
        )
