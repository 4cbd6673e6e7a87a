"""A recipe from a command line, which gives model, problems, verifier and method.

The other settings are chosen, each with a reason. The recipe is written into the run directory,
where the same command finds it again, even on another machine.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import tomli_w

from dph._base.files import make_directory, write_text
from dph.errors import DataError, ModelError, SettingsError
from dph.model.hub import problems_file, resolve_names
from dph.model.loading import load_tokenizer
from dph.model.prompts import encode_prompt, wants_chat
from dph.recipe import Recipe
from dph.recipe.places import hub_file, place_own_code, spell_out_sets, start_paths_at
from dph.recipe.recipe import recipe_of
from dph.recipe.section import flat, put, read_override, read_table
from dph.recipe.tables import BITSANDBYTES, PEFT
from dph.records import Problem
from dph.runs.check import check, read_data
from dph.runs.check_model import CheckedModel, Findings, NamedProblems, check_memory, check_model
from dph.runs.memory import Device, device_at_hand, read_shape
from dph.runs.progress import ProgressDisplay, Silent
from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
from dph.tasks.sql.data_sets import SQL_SETS, problems_of_split

FILE = "command.toml"
"""The recipe of a command, in the run directory."""

TASKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gsm8k": {
            "train": "hf://datasets/openai/gsm8k/main/train-00000-of-00001.parquet",
            "sets": {"test": "hf://datasets/openai/gsm8k/main/test-00000-of-00001.parquet"},
            "columns": {"prompt": "question", "answer": "answer"},
            "verifier": "math",
        },
        "math500": {
            "train": "hf://datasets/DigitalLearningGmbH/MATH-lighteval/data/"
            "train-00000-of-00001.parquet",
            "sets": {"math500": "hf://datasets/HuggingFaceH4/MATH-500/test.jsonl"},
            "columns": {"prompt": "problem", "answer": "solution"},
            "verifier": "math",
        },
        "spider": {"verifier": "sql", "sql_rule": "spider"},
        "bird": {"verifier": "sql", "sql_rule": "bird", "verifier_timeout": 30.0},
    }
)
"""The ``[data]`` of published sets: files on the Hub, or made from a directory (``--data``)."""

_HELD_OUT, _LEAST_HELD_OUT, _MOST_HELD_OUT = 10, 8, 200
_MOST_TRIES = 16
_HELD_OUT_OF = "# train.jsonl and test.jsonl: "
_BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSettings:
    """The settings that a command gives; ``data`` is the recipe's ``[data]``.

    ``published`` is a data set of SQL and its directory, from which problems are made.
    """

    model: str
    method: str
    data: Mapping[str, Any]
    published: tuple[str, Path] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that the command did not give, with the reason for its value."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRecipe:
    """The table of a recipe, and the choices in it; none if it was found in the directory.

    ``files`` are problems to write into the run directory, by file name. ``source`` are keys of
    ``[data]`` until then; a file on the Hub has its commit.
    """

    table: dict[str, Any]
    choices: tuple[Choice, ...] = ()
    files: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)


def asked_for(
    *,
    model: str,
    method: str,
    train: str | None,
    test: str | None,
    verifier: str | None,
    task: str | None,
    data: str | None = None,
) -> GivenSettings:
    """The settings of a command; refuses options that do not fit together."""
    if data is not None and task not in SQL_SETS:
        raise SettingsError(f"--data goes with --task {' or '.join(SQL_SETS)}")
    if task is not None:
        if task not in TASKS:
            raise SettingsError(f"--task takes {', '.join(TASKS)}, got {task!r}")
        if train or test:
            raise SettingsError(f"--task {task} brings its problems: leave out --train, --test")
        if data is None and task in SQL_SETS:
            raise SettingsError(f"--task {task} needs --data DIR, its directory as published")
        settings = {**TASKS[task], **({"verifier": verifier} if verifier else {})}
        published = (task, Path(data).resolve()) if data else None
        return GivenSettings(model=model, method=method, data=settings, published=published)
    if train is None or verifier is None:
        missing = "--train FILE" if train is None else "--verifier NAME"
        raise SettingsError(f"dph run --model needs {missing}, or --task ({', '.join(TASKS)})")
    given = {"train": train, "verifier": verifier, **({"sets": {"test": test}} if test else {})}
    return GivenSettings(model=model, method=method, data=given)


def recipe_of_command(
    asked: GivenSettings,
    directory: Path,
    *,
    overrides: Sequence[str],
    progress: ProgressDisplay | None = None,
) -> ChosenRecipe:
    """The recipe in the run directory if there is one, else one whose other settings are chosen."""
    if asked.published:
        train, dev = (str((directory / f"{name}.jsonl").resolve()) for name in ("train", "dev"))
        made = {"train": train, "sets": {"dev": {"path": dev}}}
        asked = replace(asked, data={**asked.data, **made, "databases": str(asked.published[1])})
    table: dict[str, Any] = {
        "method": asked.method,
        "model": {"path": asked.model},
        "data": deepcopy(dict(asked.data)),
    }
    for key, value in map(read_override, overrides):
        put(table, key, value)
    spell_out_sets(table)
    start_paths_at(table, Path.cwd())
    place_own_code(table, beside=Path.cwd(), overridden=False)
    chosen = ChosenRecipe(table=table)
    if "sets" not in chosen.table["data"]:
        chosen = _with_held_out(chosen, directory)
    if (directory / FILE).exists():
        _require_same(chosen, directory)
        return ChosenRecipe(table=read_table(directory / FILE))
    if asked.published is None:
        return _chosen(chosen, asked, directory)
    with TemporaryDirectory() as place:  # nothing is left of a command that is refused
        chosen = _with_published(chosen, *asked.published, Path(place), progress or Silent())
        return _chosen(chosen, asked, directory)


def _chosen(chosen: ChosenRecipe, asked: GivenSettings, directory: Path) -> ChosenRecipe:
    device = device_at_hand("auto")
    recipe = _resolved(chosen, directory)
    files, named = check_model(recipe, Findings()), read_data(recipe, Findings())
    count = len(chosen.files.get("train.jsonl") or next((n.problems for n in named), ()))
    if files and wants_chat(tokenizer := load_tokenizer(files.directory), "auto"):
        chosen = _with(chosen, Choice("data.chat", True, "the model has a chat template"))
        if chosen.table["data"]["chat"] and asked.data["verifier"] in ("math", "math_qwen"):
            boxed = Choice("data.system_prompt", _BOXED, "the verifier reads boxes")
            with suppress(ModelError):  # of a template without a system message
                encode_prompt(tokenizer, "1", chat=True, system_prompt=_BOXED)
                chosen = _with(chosen, boxed)
    chosen = _with(chosen, *_sizes(device, files.context if files else None, count))
    drawn = chosen.table.get("presample", {}).get("samples", 8)
    enough = -(-5 * drawn // 8)
    why = f"rehearse problems with {enough} right answers of {drawn}"
    tries = chosen.table["evaluate"]["samples"]
    ks = sorted({k for k in (1, 8, _MOST_TRIES) if k <= tries} | {tries})
    chosen = _with(
        chosen,
        Choice("presample.threshold", enough, why),
        Choice("evaluate.k", ks, "first try, and within several"),
    )
    chosen = _fitted(chosen, directory, files, named, device)
    if errors := check(_resolved(chosen, directory), device=device).errors:
        raise SettingsError("; ".join(errors))
    return chosen


def write_chosen(chosen: ChosenRecipe, directory: Path) -> Path:
    """Write the files of problems and then the recipe into the directory."""
    make_directory(directory)
    columns = chosen.table["data"].get("columns")
    for name, problems in chosen.files.items():
        save_problems(directory / name, problems, columns=columns)
    if chosen.choices:
        train = chosen.source.get("train", "")
        first = f"{_HELD_OUT_OF}{train}\n" if hub_file(train) else ""
        write_text(directory / FILE, first + tomli_w.dumps(chosen.table))
    return directory / FILE


def _require_same(chosen: ChosenRecipe, directory: Path) -> None:
    """Refuse a directory whose run began with another command, or with other problems."""
    there = dict(flat(read_table(directory / FILE)))
    for key, value in flat(chosen.table):
        if there.get(key) != value:
            raise SettingsError(
                f"{directory / FILE} was written by another command: {key} is {there.get(key)!r} "
                f"there and {value!r} now; name another --out, or run the recipe itself: "
                f"dph run {directory / FILE} --out {directory}"
            )
    columns = chosen.table["data"].get("columns")
    for name, problems in chosen.files.items():
        written = load_problems(directory / name, columns=columns)
        if problems_fingerprint(written) != problems_fingerprint(problems):
            raise SettingsError(
                f"the problems of {chosen.source['train']} changed since {directory / name} was "
                "written: name another --out"
            )


def _with(chosen: ChosenRecipe, *choices: Choice) -> ChosenRecipe:
    """The recipe with choices; settings that were given, or chosen before, stay."""
    for choice in choices:
        section, _, name = choice.key.partition(".")
        settings = chosen.table.get(section, {})
        if name not in settings:
            table = {**chosen.table, section: {**settings, name: choice.value}}
            chosen = replace(chosen, table=table, choices=(*chosen.choices, choice))
    return chosen


def _with_held_out(chosen: ChosenRecipe, directory: Path) -> ChosenRecipe:
    """Hold out a tenth of the problems, by the hash of their ids."""
    named = _begun_with(chosen.table["data"]["train"], directory)
    source = {"train": named, "sets": {"test": named}}
    given = _resolved(replace(chosen, source=source), directory).data
    train = str(hub_file(given.train) or given.train)
    problems = load_problems(problems_file(given.train), columns=given.columns)
    count = min(max(len(problems) // _HELD_OUT, _LEAST_HELD_OUT), _MOST_HELD_OUT)
    if len(problems) < 2 * _LEAST_HELD_OUT:
        raise DataError(
            f"{train} has {len(problems)} problems, too few to hold {_LEAST_HELD_OUT} out: name a "
            "file of others (--test FILE)"
        )
    order = sorted(problems, key=lambda p: hashlib.sha256(p.problem_id.encode()).digest())
    held_out = {problem.problem_id for problem in order[:count]}
    parts = {
        "train.jsonl": [p for p in problems if p.problem_id not in held_out],
        "test.jsonl": [p for p in problems if p.problem_id in held_out],
    }
    files = {name: str((directory / name).resolve()) for name in parts}
    sets = {"test": {"path": files["test.jsonl"]}}
    data = {**chosen.table["data"], "train": files["train.jsonl"], "sets": sets}
    why = f"{count} of {len(problems)} problems are held out (--test FILE names others)"
    choice = Choice("data.sets.test", "test.jsonl", why)
    table = {**chosen.table, "data": data}
    source = {"train": train, "sets": {"test": train}}
    return replace(chosen, table=table, choices=(choice,), files=parts, source=source)


def _begun_with(train: str, directory: Path) -> str:
    """The file on the Hub at the commit that a run in the directory began with, if it has one."""
    named, file = hub_file(train), directory / FILE
    if named is None or not file.exists():
        return train
    first = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix(_HELD_OUT_OF)
    before = hub_file(first)
    return first if before is not None and before.at(None) == named else train


def _with_published(
    chosen: ChosenRecipe, task: str, published: Path, place: Path, progress: ProgressDisplay
) -> ChosenRecipe:
    """The recipe with problems of a data set of SQL, which are in ``place`` until it is written."""
    seconds = _resolved(chosen, place).data.verifier_timeout
    files: dict[str, Sequence[Problem]] = {}
    choices: list[Choice] = []
    for key, split in (("data.train", "train"), ("data.sets.dev", "dev")):
        source = SQL_SETS[task](published, split)
        if source.databases is None:
            raise DataError(f"{published} has no databases of {split}: --task {task} runs queries")
        made = problems_of_split(source, timeout=seconds, task=progress.task)
        inside = source.databases.relative_to(published)
        files[f"{split}.jsonl"] = [
            replace(p, answer={**p.answer, "database": str(inside / p.answer["database"])})
            for p in made.problems
        ]
        save_problems(place / f"{split}.jsonl", files[f"{split}.jsonl"])
        left = "".join(f"; {count}: gold {why}" for why, count in made.counts().items())
        why = f"{len(made.problems)} of {len(source.questions)} questions{left}"
        choices.append(Choice(key, f"{split}.jsonl", why))
    return replace(
        chosen,
        choices=tuple(choices),
        files=files,
        source={"train": str(place / "train.jsonl"), "sets": {"dev": str(place / "dev.jsonl")}},
    )


def _sizes(device: Device | None, context: int | None, problems: int) -> Iterator[Choice]:
    gpu = device is not None and device.cuda
    where = device.name if device else "a device of unknown memory"
    why = f"a starting point for {where}" if gpu else "small, because there is no GPU"
    tokens = 1024 if gpu else 256
    if context is not None and tokens > context // 2:
        yield Choice("sampling.max_tokens", context // 2, f"half of the model's context, {context}")
    yield Choice("sampling.max_tokens", tokens, f"longest answer; {why}")
    if gpu and find_spec("vllm"):
        yield Choice("sampling.engine", "vllm", "installed, and faster on a GPU")
    yield Choice("train.steps", 100 if gpu else 20, why)
    step, quarter = 32 if gpu else 8, max(problems // 4, 1)
    why = why if step <= quarter else f"a quarter of {problems} problems"
    yield Choice("train.problems_per_step", min(step, quarter), why)
    if quarter == 1:
        yield Choice("train.minibatches", 1, "one problem a step")
    yield Choice("train.rehearsal_per_step", min(step, quarter), "as many as new problems")
    yield Choice("train.checkpoint_every", 20 if gpu else 5, "a kill costs at most these steps")
    yield Choice("evaluate.samples", _MOST_TRIES, f"for Pass@{_MOST_TRIES}")


_SMALL_RATES = ((10**7, 2e-4), (5 * 10**8, 5e-6))
"""Learning rates below a number of weights, from studies of models with 0.34 and 135 million."""


def _rate(parameters: int | None, *, adapts: bool) -> Choice:
    if adapts:
        return Choice("train.learning_rate", 1e-5, "usual for an adapter")
    for most, rate in _SMALL_RATES:
        if parameters is not None and parameters < most:
            said = f"for fewer than {most / 1e6:g} million weights; 1e-6 would hardly move them"
            return Choice("train.learning_rate", rate, said)
    return Choice("train.learning_rate", 1e-6, "the paper's, for all weights")


def _fitted(
    given: ChosenRecipe,
    directory: Path,
    files: CheckedModel | None,
    named: Sequence[NamedProblems],
    device: Device | None,
) -> ChosenRecipe:
    """The recipe with the first way to train that fits into the memory of the device."""
    parameters = read_shape(files.directory).parameters if files else None
    reason = "fits by the estimate of dph recipe check" if device else "nothing else is known"
    ways: list[dict[str, Any]] = [{}, {"gradient_checkpointing": True}]
    if PEFT.is_installed:
        adapter = {"gradient_checkpointing": True, "adapter": {"kind": "lora"}}
        ways.append(adapter)
        if device is not None and device.cuda:
            ways.append({**adapter, "weights": "bfloat16"})
            if BITSANDBYTES.is_installed:
                ways.append({**adapter, "weights": "nf4"})
    for way in ways:
        chosen = _with(given, *(Choice(f"model.{key}", way[key], reason) for key in way))
        adapts = "adapter" in chosen.table["model"]
        chosen = _with(chosen, _rate(parameters, adapts=adapts))
        findings = Findings()
        check_memory(_resolved(chosen, directory), files, named, findings, device=device)
        if not findings.errors:
            break
        reason = findings.errors[0].partition(":")[0]
    return chosen


def _resolved(chosen: ChosenRecipe, directory: Path) -> Recipe:
    """The recipe with its files on the Hub fetched, and problems read from ``source``."""
    table = deepcopy(chosen.table)  # reading a recipe changes its table
    table["data"] |= deepcopy(dict(chosen.source))
    return resolve_names(recipe_of(table, beside=Path.cwd()), run=directory).recipe
