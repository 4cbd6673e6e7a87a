"""The model card of a run: what was trained from what, how, and what was measured."""

from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import ModelCardData

from dph import __version__
from dph._base.files import write_text
from dph.errors import DataError
from dph.recipe import Recipe
from dph.recipe.hub_names import hub_file, is_model_id
from dph.results.charts.cost_words import cost_document, cost_words
from dph.results.charts.labels import method_label, set_label
from dph.results.charts.tables import INTERVAL_NOTE, markdown_table
from dph.results.publish.finished_run import FinishedRun
from dph.results.publish.shared_recipe import shared_recipe
from dph.runs.stage_costs import run_cost

FILE = "README.md"
_MARK = "<!-- Written by `dph card`. Remove this line to keep what you change. -->"


def write_card(run: FinishedRun, path: Path | None = None) -> Path:
    """Write the card of a run, atomically, and return its path: ``README.md`` in its directory.

    Raises:
        DataError: another file lies there, or a card that somebody has made their own.
    """
    path = path or run.directory / FILE
    if path.exists() and not is_ours(path):
        raise DataError(
            f"{path} was not written by `dph card`, or has been changed since: name another file "
            "(--out), or remove it"
        )
    write_text(path, model_card(run))
    return path


def is_ours(path: Path) -> bool:
    """Whether a card may be written again: it still says that this wrote it."""
    return _MARK in path.read_text(encoding="utf-8", errors="replace")


def model_card(run: FinishedRun, *, name: str | None = None) -> str:
    """The card as markdown, with the Hub's metadata before it; ``name`` is the model's there."""
    recipe = run.recipe
    parts = [
        f"---\n{_metadata(recipe)}\n---\n{_MARK}",
        f"# {name or recipe.name}",
        f"{_initial(recipe)}, trained with {method_label(recipe.method)} by dph {__version__}.",
        *([f"> {recipe.notes}"] if recipe.notes else []),
        "## Measured",
        *_measured(run),
        "## Made from",
        "\n".join(_origin(run)),
        *([_use(name)] if name else []),
        "## Recipe",
        f"```toml\n{shared_recipe(recipe).strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(recipe: Recipe) -> str:
    files = [recipe.data.train, *(one.path for one in recipe.data.sets.values())]
    named = dict.fromkeys(file.repo for file in map(hub_file, files) if file)
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=recipe.model.path if is_model_id(recipe.model.path) else None,
        datasets=list(named) or None,
        tags=["dph", "reinforcement-learning", recipe.method],
    ).to_yaml()


def _initial(recipe: Recipe) -> str:
    model = recipe.model
    if model.revision is None:
        return f"`{Path(model.path).name}`"
    return f"`{model.path}` at `{model.revision}`"


def _measured(run: FinishedRun) -> Iterator[str]:
    if run.evaluation is None:
        yield "Not measured."
        return
    summary = {"base": run.base, "methods": {run.recipe.method: run.evaluation}}
    yield f"{run.evaluation['samples']} samples a problem, {INTERVAL_NOTE}."
    for name, measured in run.evaluation["sets"].items():
        ks = sorted(map(int, measured["pass_at_k"]))
        yield f"### {set_label(name)}: {measured['problems']} problems"
        yield markdown_table(summary, set_name=name, ks=ks).strip()


def _origin(run: FinishedRun) -> Iterator[str]:
    recipe = run.recipe
    yield f"- initial policy: {_initial(recipe)}"
    yield f"- training problems: `{_file(recipe.data.train)}`"
    for name, one in recipe.data.sets.items():
        yield f"- evaluation set {set_label(name)}: `{_file(one.path)}`"
    yield f"- method: `{recipe.method}`, seed {recipe.seed}, checkpoint `{run.checkpoint.name}`"
    if cost := cost_words(cost_document(run_cost(run.directory, recipe))):
        yield f"- cost of all stages: {cost}"
    yield f"- verifier: `{recipe.data.verifier}`"
    for name, digest in run.hashes.items():
        yield f"- {name}: SHA-256 of its manifest `{digest}`"
    if run.pool is not None:
        source = run.pool.source
        yield f"- weights of the initial policy: SHA-256 `{source.model_fingerprint}`"
        yield f"- training problems: SHA-256 `{source.problems_fingerprint}`"


def _file(path: Path) -> str:
    return str(hub_file(path) or path.name)


def _use(name: str) -> str:
    code = (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f'model = AutoModelForCausalLM.from_pretrained("{name}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")'
    )
    return f"## Use\n\n```python\n{code}\n```"
