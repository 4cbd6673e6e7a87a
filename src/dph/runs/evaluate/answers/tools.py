"""A graded answer, and the forms in which trainers and evaluation tools write theirs."""

import hashlib
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError, SettingsError
from dph.records import Outcome

Prompt = str | tuple[Mapping[str, str], ...]
Row = Mapping[str, Any]
PlacedRow = tuple[str, Row]
"""Place of a row in its file, and the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedAnswer:
    """An answer with its verdict; ``index`` is its place among those to the problem (-1: greedy).

    ``prompt`` and ``gold`` are None if the file has none; ``step`` is that of training.
    """

    set_name: str
    problem_id: str
    place: str
    outcome: Outcome
    reward: float
    text: str = ""
    reason: str = ""
    style: str | None = None
    index: int | None = None
    prompt: Prompt | None = None
    gold: str | None = None
    step: int = 0


USUAL: Mapping[str, tuple[str, ...]] = {
    "problem_id": ("problem_id", "id", "task_id"),
    "prompt": ("prompt", "question", "problem"),
    "response": (
        *("response", "completion", "output", "pred_sql", "program", "text"),
        *("prediction", "generation", "generated_text", "responses"),
    ),
    "gold": ("gold", "answer", "gold_sql", "ground_truth", "target"),
    "correct": ("outcome", "correct", "is_correct", "passed", "reward", "score"),
    "set": ("set",),
}
"""Names that rows may have for a column of ours; the first that exists counts."""

_named: dict[str, str] = {}


def named_columns() -> Mapping[str, str]:
    return dict(_named)


@contextmanager
def columns_named(given: Mapping[str, str]) -> Iterator[None]:
    """Read files of answers with these names of our columns until the block ends.

    It holds for all threads: a server reads files again when they change.
    """
    if unknown := [name for name in given if name not in USUAL]:
        raise SettingsError(f"there is no column {unknown[0]!r} to name, only {', '.join(USUAL)}")
    before = named_columns()
    _named.clear()
    _named.update(given)
    try:
        yield
    finally:
        _named.clear()
        _named.update(before)


def only_correct_named(tool: str) -> str | None:
    """The user's name for the verdict, in a file whose other columns are known."""
    if others := [name for name in _named if name != "correct"]:
        raise SettingsError(f"the columns of {tool} are known: {others[0]!r} cannot be named there")
    return _named.get("correct")


_WORDS = {"true": "1", "false": "0"}


def verdict_of(value: Any, place: str, name: str) -> tuple[Outcome, float]:
    """The outcome and reward of a value.

    It is a bool, a number in [0, 1], of which 1 is right, or, unless it is a reward, a text of
    these or an ``Outcome``.
    """
    if isinstance(value, str) and name != "reward":
        if value in Outcome.__members__:
            return Outcome(value), float(value == Outcome.CORRECT)
        text = value.strip().lower()
        with suppress(ValueError):
            value = float(_WORDS.get(text, text))
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1:
        return (Outcome.CORRECT if value == 1 else Outcome.WRONG), float(value)
    wanted = {"outcome": f"one of {', '.join(Outcome)}", "reward": "a number in [0, 1]"}
    raise DataError(
        f"{place}: {name} must be {wanted.get(name, 'true, false or a number in [0, 1]')}, got "
        f"{value!r:.80}; --column correct=NAME names another column"
    )


def is_zero_or_one(value: Any) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def text_of(value: Any, place: str) -> str:
    """A text, the texts of chat messages or of their parts, or "" for nothing."""
    if value is None or value != value:  # NaN is what pandas has for nothing
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair
    if isinstance(value, Mapping):
        return text_of(value.get("content", value.get("text", "")), place)
    if isinstance(value, Sequence):
        return "\n".join(filter(None, (text_of(part, place) for part in value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{place}: an answer is a text or a list of messages, got {value!r:.80}")


def prompt_of(value: Any, place: str) -> Prompt | None:
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return tuple(
            {"role": str(one.get("role", "user")), "content": text_of(one, place)} for one in value
        )
    return text_of(value, place) or None


def id_of_prompt(prompt: Prompt | None, gold: str | None) -> str:
    """A short id for a problem that only has its text: equal for equal texts."""
    return f"prompt-{hashlib.sha256(json.dumps([prompt, gold]).encode()).hexdigest()[:10]}"


# Trainers: verl's dumps of generations, and TRL's tables of completions.


def read_verl(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """A line for each answer of ``trainer.validation_data_dir`` or ``rollout_data_dir``.

    As in verl's own metrics, ``acc`` counts if the reward function gives it, otherwise the score.
    """
    correct = only_correct_named("verl") or ("acc" if "acc" in first else "score")
    return correct, (_verl(place, row, correct) for place, row in rows)


def _verl(place: str, row: Row, correct: str) -> GradedAnswer:
    prompt = prompt_of(row.get("input"), place)
    gold = None if row.get("gts") is None else str(row["gts"])
    outcome, reward = verdict_of(row.get(correct), place, correct)
    return GradedAnswer(
        set_name=str(row.get("data_source") or "validation"),
        problem_id=id_of_prompt(prompt, gold),
        place=place,
        outcome=outcome,
        reward=reward,
        text=text_of(row.get("output"), place),
        prompt=prompt,
        gold=gold,
        step=int(row["step"]),
    )


def read_trl(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """The rows of a ``completions_<step>.parquet`` (``log_completions=True``)."""
    table = list(rows)
    correct = only_correct_named("TRL") or _right_or_wrong(table, first)
    return correct, (_trl(place, row, correct) for place, row in table)


def _right_or_wrong(table: Sequence[PlacedRow], first: Row) -> str:
    """The one reward that is 0 or 1 in every row; of several, the one named after being right."""
    others = ("step", "prompt", "completion", "advantage")
    rewards = [n for n, value in first.items() if n not in others and not isinstance(value, str)]
    fit = [n for n in rewards if all(r[n] is None or is_zero_or_one(r[n]) for _, r in table)]
    told = [name for name in fit if "accura" in name.lower() or "correct" in name.lower()]
    if len(found := told if len(fit) > 1 else fit) == 1:
        return found[0]
    raise DataError(
        f"{table[0][0]}: {'several rewards are' if fit else 'no reward is'} always 0 or 1; "
        f"--column correct=NAME names the one that says what is right, of {', '.join(rewards)}"
    )


def _trl(place: str, row: Row, correct: str) -> GradedAnswer:
    if correct not in row:
        raise DataError(f"{place}: there is no column {correct!r}, only {', '.join(row)}")
    prompt, value = prompt_of(row.get("prompt"), place), row[correct]
    ungraded = value is None or value != value
    outcome, reward = (Outcome.CRASHED, 0.0) if ungraded else verdict_of(value, place, correct)
    return GradedAnswer(
        set_name="completions",
        problem_id=id_of_prompt(prompt, None),
        place=place,
        outcome=outcome,
        reward=reward,
        text=text_of(row.get("completion"), place),
        reason=f"{correct} gave no reward" if ungraded else "",
        prompt=prompt,
        step=int(row["step"]),
    )


# Metrics of evaluation tools.

_USUAL = re.compile(r"exact_match|acc|extractive_match|pass@1|pass@k.*k=1\b.*|avg@n.*")


def metric_of(metrics: Mapping[str, Any], named: str | None) -> str:
    """The metric of the verdict: the one named, otherwise a usual one, or any of 0 or 1."""
    found = [name for name in metrics if _USUAL.fullmatch(name)]
    found += [name for name in metrics if is_zero_or_one(metrics[name])]
    if named is not None:
        found = [named] if named in metrics else []
    if not found:
        raise DataError(
            f"there is no metric {named or 'of 0 or 1'}; --column correct=NAME names one of "
            f"{', '.join(metrics) or 'none'}"
        )
    return found[0]


def judged(value: Any, texts: Sequence[str], place: str, metric: str) -> list[dict[str, Any]]:
    """Text, outcome, reward and reason of the answers that one metric judges.

    It has a value for each answer, or their mean. A mean of several does not say which are right,
    so unless all or none are, their texts are left out.
    """
    count, reason = len(texts), ""
    values = value if isinstance(value, list) and len(value) == count else [value]
    if len(values) < count:
        right = value * count if isinstance(value, int | float) else math.nan
        if not 0 <= right <= count or abs(right - round(right)) > 1e-6:
            raise DataError(f"{place}: {metric} must be a share of {count} answers, got {value!r}")
        values = [index < round(right) for index in range(count)]
        if 0 < round(right) < count:
            texts = [""] * count
            reason = f"{round(right)} of {count} were right by {metric}; which is not in the file"
    verdicts = [verdict_of(one, place, metric) for one in values]
    return [
        {"text": text, "outcome": outcome, "reward": reward, "reason": reason}
        for text, (outcome, reward) in zip(texts, verdicts, strict=True)
    ]


# lm-evaluation-harness: samples_<task>_<date>.jsonl (--log_samples).

_LM_EVAL_FILE = re.compile(r".*samples_(.+?)(_\d{4}-\d\d-\d\dT[\d\-.]+)?\.jsonl(\.gz)?, line \d+")

_LM_EVAL_COLUMNS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")
) | {"doc_hash", "prompt_hash", "target_hash"}


def read_lm_eval(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """A line for each document and filter; the first filter counts unless another is named."""
    named, _, chosen = (only_correct_named("lm-eval") or "").partition(",")
    chosen = chosen or str(first.get("filter", "none"))
    others = [name for name in first if name not in _LM_EVAL_COLUMNS]  # before 0.4.7
    metrics = {name: first[name] for name in first.get("metrics", others) if name in first}
    metric = metric_of(metrics, named or None)
    answers = (one for placed in _of_filter(rows, chosen) for one in _lm_eval(*placed, metric))
    return metric if chosen == "none" else f"{metric},{chosen}", answers


def _of_filter(rows: Iterator[PlacedRow], chosen: str) -> Iterator[PlacedRow]:
    """The rows of a filter. Older files do not name them, and have a document once for each."""
    filters, seen = set[str](), set[Any]()
    for place, row in rows:
        filters.add(row.get("filter", "none"))
        if "filter" not in row and row["doc_id"] in seen:
            raise DataError(
                f"{place}: document {row['doc_id']} occurs twice, and the file does not say for "
                "which filter; newer releases of lm-eval do"
            )
        seen.add(row["doc_id"])
        if row.get("filter", "none") == chosen:
            yield place, row
    if chosen not in filters:
        raise DataError(f"there is no filter {chosen!r}, only {', '.join(sorted(filters))}")


def _lm_eval(place: str, row: Row, metric: str) -> Iterator[GradedAnswer]:
    task, prompts = _LM_EVAL_FILE.fullmatch(place), row.get("arguments") or {}
    asked = prompts.get("gen_args_0", {}).get("arg_0") if isinstance(prompts, Mapping) else None
    for one in judged(row.get(metric), _lm_eval_texts(row, prompts), place, metric):
        yield GradedAnswer(
            set_name=task[1] if task else "lm-eval",
            problem_id=str(row["doc_id"]),
            place=place,
            prompt=prompt_of(asked, place),
            gold=str(row["target"]) if "target" in row else None,
            **one,
        )


def _lm_eval_texts(row: Row, prompts: Any) -> list[str]:
    """The answers that were judged: the likeliest of a choice, otherwise the first or all."""
    drawn, kept = row["resps"], row.get("filtered_resps")
    if drawn and drawn[0] and isinstance(drawn[0][0], list):  # a log-prob for each choice
        scores = [float(of_choice[0][0]) for of_choice in drawn]
        chosen = prompts.get(f"gen_args_{scores.index(max(scores))}", {})
        return [str(chosen.get("arg_1", ""))]
    count = len(kept[0]) if kept and isinstance(kept[0], list) else 1
    return [text_of(text, "") for text in [*drawn[0], ""][:count]]


# lighteval: details_<task>_<date>.parquet (--save-details).


def read_lighteval(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """A row for each document: ``doc``, ``model_response`` and ``metric``."""
    known = {name: value for name, value in first["metric"].items() if value is not None}
    metric = metric_of(known, only_correct_named("lighteval"))
    return metric, (answer for placed in rows for answer in _lighteval(*placed, metric))


def _lighteval(place: str, row: Row, metric: str) -> Iterator[GradedAnswer]:
    doc, texts = row["doc"], row["model_response"].get("text") or [""]
    golds, choices = doc.get("gold_index"), doc.get("choices") or []
    golds = [choices[i] for i in (golds if isinstance(golds, list) else [golds]) if i is not None]
    texts = [text_of(text, place) for text in texts]
    for one in judged(row["metric"].get(metric), texts, place, metric):
        yield GradedAnswer(
            set_name=str(doc.get("task_name") or "lighteval").partition("|")[0],
            problem_id=str(doc.get("id")),
            place=place,
            prompt=prompt_of(doc.get("query"), place),
            gold=" or ".join(map(str, golds)) or None,
            **one,
        )


# evalplus: <samples>_eval_results.json.


def is_evalplus(document: Mapping[str, Any]) -> bool:
    found = document.get("eval")
    tasks = list(found.values()) if isinstance(found, dict) else []
    return bool(tasks) and all(isinstance(of, list) and "base_status" in of[0] for of in tasks)


def read_evalplus(document: Mapping[str, Any], path: Path) -> tuple[str, Iterator[GradedAnswer]]:
    """Programs of every task; the added tests count if they were run."""
    ran = [one for of in document["eval"].values() for one in of]
    known = ["plus_status", "base_status"][not any(one.get("plus_status") for one in ran) :]
    named = only_correct_named("evalplus") or known[0]
    if named not in known:
        raise DataError(f"{path}: there is no {named!r}, only {', '.join(known)}")
    tests = known[known.index(named) :]
    return named, (
        GradedAnswer(
            set_name=str(one["task_id"]).partition("/")[0],
            problem_id=str(one["task_id"]),
            place=f"{path}, {one['task_id']}",
            outcome=Outcome.WRONG if failed else Outcome.CORRECT,
            reward=float(not failed),
            text=text_of(one.get("solution"), str(path)),
            reason=", ".join(failed),
        )
        for one in ran
        for failed in [[f"{t}: {one.get(t)}" for t in tests if one.get(t) != "pass"]]
    )


# Inspect: a .eval file (a ZIP of JSON documents), or the same as one JSON document.

_ZSTANDARD = 93
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def inspect_log(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as log:
            members = {info.filename: info for info in log.infolist()}
            names = [name for name in members if re.fullmatch(r"samples/.*\.json", name)]
            head = "header.json" if "header.json" in members else "_journal/start.json"
            read = [json.loads(_member(raw, log, members[name])) for name in (head, *names)]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} as a log of Inspect: {error}") from error
    return {"eval": read[0].get("eval", {}), "samples": read[1:]}


def _member(raw: Any, log: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A document of the log; newer ones use Zstandard, which zipfile reads from 3.14 on."""
    if info.compress_type != _ZSTANDARD:
        return log.read(info)
    raw.seek(info.header_offset + 26)
    lengths = raw.read(4)
    raw.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
    with pa.CompressedInputStream(pa.BufferReader(raw.read(info.compress_size)), "zstd") as stream:
        return bytes(stream.read())


def read_inspect(document: Mapping[str, Any], path: Path) -> tuple[str, Iterator[GradedAnswer]]:
    """A sample for each problem and epoch; the first scorer counts unless another is named."""
    samples = document["samples"]
    scorers = dict.fromkeys(name for one in samples for name in one.get("scores") or {})
    scorer = only_correct_named("Inspect") or next(iter(scorers), "")
    if scorer not in scorers:
        raise DataError(
            f"{path}: there is no score {scorer!r}, only {', '.join(scorers) or 'none'}"
        )
    set_name = str(document.get("eval", {}).get("task", "inspect")).rpartition("/")[2]
    return scorer, (_inspect(one, scorer, set_name, path) for one in samples)


def _inspect(sample: Mapping[str, Any], scorer: str, set_name: str, path: Path) -> GradedAnswer:
    place = f"{path}, sample {sample.get('id')}, epoch {sample.get('epoch')}"
    sample = _attached(sample, sample.get("attachments") or {})
    output = sample.get("output") or {}
    said = output.get("completion") or (output.get("choices") or [{}])[0].get("message")
    score = (sample.get("scores") or {}).get(scorer) or {}
    value, text = score.get("value"), text_of(said, place)
    outcome, reward, reason = Outcome.CRASHED, 0.0, f"not scored: {sample.get('error')}"
    if value is not None and value == value:
        outcome, reward = verdict_of(_LETTERS.get(str(value), value), place, scorer)
        reason = str(score.get("explanation") or "")
    return GradedAnswer(
        set_name=set_name,
        problem_id=str(sample.get("id")),
        place=place,
        outcome=outcome,
        reward=reward,
        text=text,
        reason="" if reason == text else reason,
        prompt=prompt_of(sample.get("input"), place),
        gold=text_of(sample.get("target"), place),
    )


def _attached(value: Any, kept: Mapping[str, str]) -> Any:
    """The value with its long texts, which a log keeps apart."""
    if isinstance(value, str) and value.startswith("attachment://"):
        return kept.get(value.removeprefix("attachment://"), value)
    if isinstance(value, list):
        return [_attached(one, kept) for one in value]
    if isinstance(value, Mapping):
        return {key: _attached(one, kept) for key, one in value.items()}
    return value
