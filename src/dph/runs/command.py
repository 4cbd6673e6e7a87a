"""A recipe from a command line: model, problems, verifier and method are given, the rest chosen.

Every choice has a reason. The recipe is left in the run directory, where the same command finds it
again, whatever machine it runs on then.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomli_w

from dph._base.files import make_directory, write_text
from dph.errors import DataError, SettingsError
from dph.model.hub import resolve_names
from dph.recipe import Recipe
from dph.recipe.extras import BITSANDBYTES, PEFT
from dph.recipe.places import place_own_code, spell_out_sets, start_paths_at
from dph.recipe.recipe import recipe_of
from dph.recipe.section import flat, put, read_override, read_table
from dph.records import Problem
from dph.runs.memory import Device, device_at_hand
from dph.runs.preflight import preflight
from dph.runs.preflight.data import Findings, NamedProblems, read_data
from dph.runs.preflight.model import ModelFiles, check_model
from dph.runs.preflight.prompts import check_memory
from dph.tasks.problems import load_problems, save_problems

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
    }
)
"""The ``[data]`` of published sets; the Hub is asked for them where its cache has none."""

_HELD_OUT, _LEAST_HELD_OUT, _MOST_HELD_OUT = 10, 8, 200
_MOST_TRIES = 16
_BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The settings that a command gives; ``data`` is the recipe's ``[data]``."""

    model: str
    method: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that the command did not give, and the reason for its value."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRecipe:
    """The table of a recipe, and the choices in it; none where it was found in the directory."""

    table: dict[str, Any]
    choices: tuple[Choice, ...] = ()
    held_out: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    """Files to write into the run directory, by name, where some problems are held out."""
    train: str = ""
    """The file of problems that was given, where some are held out."""


def asked_for(
    *,
    model: str,
    method: str,
    train: str | None,
    test: str | None,
    verifier: str | None,
    task: str | None,
) -> Asked:
    """The request of a command."""
    if task is not None:
        if task not in TASKS:
            raise SettingsError(f"--task takes {', '.join(TASKS)}, got {task!r}")
        if train or test:
            raise SettingsError(f"--task {task} brings its problems: leave out --train, --test")
        data = {**TASKS[task], **({"verifier": verifier} if verifier else {})}
        return Asked(model=model, method=method, data=data)
    if train is None or verifier is None:
        missing = "--train FILE" if train is None else "--verifier NAME"
        raise SettingsError(f"dph run --model needs {missing}, or --task ({', '.join(TASKS)})")
    sets = {"sets": {"test": test}} if test else {}
    return Asked(model=model, method=method, data={"train": train, "verifier": verifier, **sets})


def recipe_of_command(asked: Asked, directory: Path, *, overrides: Sequence[str]) -> ChosenRecipe:
    """The recipe of a command: that of the directory if there is one, else a chosen one."""
    chosen = ChosenRecipe(table=_given(asked, overrides))
    if "sets" not in chosen.table["data"]:
        chosen = _with_held_out(chosen, directory)
    if (directory / FILE).exists():
        _require_same(chosen, directory)
        return ChosenRecipe(table=read_table(directory / FILE))
    device = device_at_hand("auto")
    recipe = _resolved(chosen, directory)
    files, named = check_model(recipe, Findings()), read_data(recipe, Findings())
    count = len(chosen.held_out.get("train.jsonl") or next((n.problems for n in named), ()))
    for choice in _sizes(asked, device, files.context if files else None, count):
        chosen = _with(chosen, choice)
    drawn = chosen.table.get("presample", {}).get("samples", 8)
    enough = -(-5 * drawn // 8)
    why = f"rehearse problems with {enough} right answers of {drawn}"
    chosen = _with(chosen, Choice("presample.threshold", enough, why))
    tries = chosen.table["evaluate"]["samples"]
    ks = sorted({k for k in (1, 8, _MOST_TRIES) if k <= tries} | {tries})
    chosen = _with(chosen, Choice("evaluate.k", ks, "first try, and within several"))
    chosen = _fitted(chosen, device, lambda it: _refusal(it, directory, files, named, device))
    if errors := preflight(_resolved(chosen, directory), device=device).errors:
        raise SettingsError("; ".join(errors))
    return chosen


def write_chosen(chosen: ChosenRecipe, directory: Path) -> Path:
    """Leave the recipe and its files of problems in the directory; the recipe comes last."""
    make_directory(directory)
    for name, problems in chosen.held_out.items():
        save_problems(directory / name, problems)
    if chosen.choices:
        write_text(directory / FILE, tomli_w.dumps(chosen.table))
    return directory / FILE


def _given(asked: Asked, overrides: Sequence[str]) -> dict[str, Any]:
    """The table of what was given, with paths that hold from every directory."""
    table: dict[str, Any] = {
        "method": asked.method,
        "model": {"path": asked.model},
        "data": deepcopy(dict(asked.data)),
    }
    for override in map(read_override, overrides):
        put(table, override)
    spell_out_sets(table)
    start_paths_at(table, Path.cwd())
    place_own_code(table, beside=Path.cwd(), overridden=False)
    return table


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
    for name, problems in chosen.held_out.items():
        if load_problems(directory / name) != list(problems):
            raise SettingsError(
                f"the problems of {chosen.train} changed since {directory / name} was written: "
                "name another --out"
            )


def _with(chosen: ChosenRecipe, choice: Choice) -> ChosenRecipe:
    """The recipe with a choice, unless its setting was given."""
    section, _, name = choice.key.partition(".")
    settings = chosen.table.get(section, {})
    if name in settings:
        return chosen
    table = {**chosen.table, section: {**settings, name: choice.value}}
    return replace(chosen, table=table, choices=(*chosen.choices, choice))


def _with_held_out(chosen: ChosenRecipe, directory: Path) -> ChosenRecipe:
    """Hold out a tenth of the problems, by the hash of their ids."""
    problems = load_problems(chosen.table["data"]["train"])
    count = min(max(len(problems) // _HELD_OUT, _LEAST_HELD_OUT), _MOST_HELD_OUT)
    if len(problems) < 2 * _LEAST_HELD_OUT:
        raise DataError(
            f"{chosen.table['data']['train']} has {len(problems)} problems, too few to hold "
            f"{_LEAST_HELD_OUT} out: name a file of others (--test FILE)"
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
    train = chosen.table["data"]["train"]
    return replace(
        chosen, table=table, choices=(*chosen.choices, choice), held_out=parts, train=train
    )


def _sizes(
    asked: Asked, device: Device | None, context: int | None, problems: int
) -> Iterator[Choice]:
    """Sizes of the run, by the device, the model's context, the problems and the verifier."""
    gpu = device is not None and device.cuda
    where = device.name if device else "a device of unknown memory"
    why = f"a starting point for {where}" if gpu else "small, because there is no GPU"
    if asked.data["verifier"] in ("math", "math_qwen"):
        yield Choice("data.system_prompt", _BOXED, "the verifier reads boxes")
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
    yield Choice("train.rehearsal_per_step", min(step, quarter), "as many as new problems")
    yield Choice("train.checkpoint_every", 20 if gpu else 5, "a kill costs at most these steps")
    yield Choice("evaluate.samples", _MOST_TRIES, f"for Pass@{_MOST_TRIES}")


def _fitted(
    chosen: ChosenRecipe, device: Device | None, refusal_of: Callable[[ChosenRecipe], str]
) -> ChosenRecipe:
    """The first way to train whose estimated memory the device has."""
    reason = "fits by the estimate of dph recipe check" if device else "nothing else is known"
    ways: list[dict[str, Any]] = [{}, {"gradient_checkpointing": True}]
    if PEFT.is_installed:
        adapter = {"gradient_checkpointing": True, "adapter": {"kind": "lora"}}
        ways.append(adapter)
        if device is not None and device.cuda:
            ways.append({**adapter, "weights": "bfloat16"})
            if BITSANDBYTES.is_installed:
                ways.append({**adapter, "weights": "nf4"})
    given = chosen
    for way in ways:
        chosen = given
        for name, value in way.items():
            chosen = _with(chosen, Choice(f"model.{name}", value, reason))
        adapts = "adapter" in chosen.table["model"]
        rate = Choice(
            "train.learning_rate",
            1e-5 if adapts else 1e-6,
            "usual for an adapter" if adapts else "the paper's, for all weights",
        )
        chosen = _with(chosen, rate)
        refusal = refusal_of(chosen)
        if not refusal:
            return chosen
        reason = refusal.partition(":")[0]
    return chosen


def _refusal(
    chosen: ChosenRecipe,
    directory: Path,
    files: ModelFiles | None,
    named: Sequence[NamedProblems],
    device: Device | None,
) -> str:
    """The reason why the device cannot hold it, or ''."""
    findings, recipe = Findings(), _resolved(chosen, directory)
    check_memory(recipe, files, named, findings, device=device)
    return "; ".join(findings.errors)


def _resolved(chosen: ChosenRecipe, directory: Path) -> Recipe:
    """The recipe with its names on the Hub fetched, and all problems where some are held out."""
    table = deepcopy(chosen.table)  # reading a recipe changes its table
    if chosen.held_out:  # their files are not written yet
        table["data"] |= {"train": chosen.train, "sets": {"test": chosen.train}}
    return resolve_names(recipe_of(table, beside=Path.cwd()), run=directory).recipe
