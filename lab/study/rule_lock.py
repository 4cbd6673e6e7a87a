"""``rule.lock.json``: the rule that the results obey, which nothing changes once they are seen.

Before the first run on a report seed the rule may change. Afterwards a changed rule, or changed
seeds, are refused; ``--new-rule`` starts a directory of its own, whose tables say for good which
rule it replaced. What was chosen for a method stays chosen once it has a run on a report seed,
whatever becomes of the development runs.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, read_json, write_json
from dph.errors import DataError
from lab.study.candidates import Candidate
from lab.study.plan import Choice
from lab.study.rows import Places, RunRow, read_rows
from lab.study.settings import Study

SCHEMA = 2
SHOWN = 12
"""Digits of a hash in messages and tables; files have all of them."""
Place = tuple[str, str]
"""A world and a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLock:
    """The rule's hash, and those that it replaced after runs on report seeds had been made."""

    sha256: str
    replaces: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Note of every table."""
        text = f"rule {self.sha256[:SHOWN]}"
        if self.replaces:
            before = ", ".join(sha[:SHOWN] for sha in self.replaces)
            text += f", which replaced {before} after runs on the report seeds had been made"
        return text


def current_lock(study: Study, places: Places, rows: Mapping[str, RunRow]) -> RuleLock:
    """The lock as it holds for this study now; nothing is written."""
    found = _read(places)
    lock = RuleLock(sha256=study.rule_sha256, replaces=tuple(found.get("replaces", ())))
    reported = {row.rule_sha256 for row in rows.values() if row.rule_sha256 is not None}
    if not reported:
        return lock
    earlier = sorted(reported - {lock.sha256, *lock.replaces})
    if found.get("rule_sha256", lock.sha256) != lock.sha256:
        earlier = [found["rule_sha256"]]
    if earlier:
        raise DataError(
            f"the rule changed after runs on the report seeds: they follow {earlier[0]}, the rule "
            f"is now {lock.sha256}; restore the old rule, or start a separate directory for the "
            "new one with --new-rule, whose tables will say so"
        )
    for key, now in _seeds(study).items():
        if found.get(key, now) != now:
            raise DataError(
                f"study.{key} changed after runs on the report seeds: it was {found[key]}, now "
                f"{now}; restore it, or give another directory (--out)"
            )
    return lock


def write_lock(
    study: Study, places: Places, lock: RuleLock, choices: Mapping[Place, Choice] | None = None
) -> None:
    """Leave the lock, with the whole rule for people; ``choices`` are added to those it holds."""
    document = {
        "schema": SCHEMA,
        "rule_sha256": lock.sha256,
        "replaces": list(lock.replaces),
        **_seeds(study),
        "rule": study.rule.model_dump(mode="json"),
        "choices": choices_document({**(choices or {}), **locked_choices(places)}, study),
    }
    make_directory(places.out)
    if not places.lock.exists() or read_json(places.lock) != document:
        write_json(places.lock, document)


def locked_choices(places: Places) -> dict[Place, Choice]:
    """Choices made before the runs on report seeds, by world and label."""
    return dict(_choices(_read(places).get("choices", ())))


def choices_document(choices: Mapping[Place, Choice], study: Study) -> list[dict[str, Any]]:
    """Choices as JSON: all that was tried, with its score (a fraction).

    ``tie`` says of a candidate that the tie-break chose between it and others.
    """
    tie = study.rule.choose.tie
    return [
        {
            "world": world,
            "label": label,
            "tried": [
                {
                    **asdict(candidate),
                    "score": score,
                    "chosen": candidate == choice.chosen,
                    "tie": candidate in choice.tied(tie),
                }
                for candidate, score in zip(choice.tried, choice.scores, strict=True)
            ],
        }
        for (world, label), choice in sorted(choices.items())
    ]


def _choices(document: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Place, Choice]]:
    names = [field.name for field in fields(Candidate)]
    for entry in document:
        tried = [Candidate(**{name: one[name] for name in names}) for one in entry["tried"]]
        scores = [one["score"] for one in entry["tried"]]
        chosen = tried[[one["chosen"] for one in entry["tried"]].index(True)]
        choice = Choice(tried=tuple(tried), scores=tuple(scores), chosen=chosen)
        yield (entry["world"], entry["label"]), choice


def start_with_new_rule(study: Study, places: Places) -> Places:
    """A directory for the changed rule next to the old one: same rows, and a lock that records it.

    Where the rule did not change after all, or no run on a report seed was made, it is the old one.
    """
    rows = read_rows(places)
    before = _read(places)
    obeyed = {row.rule_sha256 for row in rows.values() if row.rule_sha256 is not None}
    known = {study.rule_sha256, *before.get("replaces", ())}
    if not obeyed or {before.get("rule_sha256", study.rule_sha256), *obeyed} <= known:
        return places
    fresh = Places(places.out.with_name(f"{places.out.name}-{study.rule_sha256[:8]}"))
    if not fresh.lock.exists():
        replaced = dict.fromkeys([*before.get("replaces", ()), *sorted(obeyed)])
        replaced.pop(study.rule_sha256, None)
        make_directory(fresh.out)
        if places.rows.is_dir():
            shutil.copytree(places.rows, fresh.rows, dirs_exist_ok=True)
        for path in (*filter(Path.exists, [places.parquet]), *places.shares):
            folder = make_directory((fresh.out / path.relative_to(places.out)).parent)
            shutil.copyfile(path, folder / path.name)
        write_lock(study, fresh, RuleLock(sha256=study.rule_sha256, replaces=tuple(replaced)))
    return fresh


def default_places(study: Study, out: Path | None) -> Places:
    """``out``, or the directory ``<name>`` next to the STUDY.toml."""
    return Places((out or study.path.parent / study.file.study.name).absolute())


def _read(places: Places) -> dict[str, Any]:
    found = read_json(places.lock) if places.lock.exists() else {}
    if not isinstance(found, dict):
        raise DataError(f"{places.lock} is damaged: restore it; got {found!r:.80}")
    return found


def _seeds(study: Study) -> dict[str, Any]:
    settings = study.file.study
    return {
        "seeds_development": list(settings.seeds_development),
        "seeds_report": list(settings.seeds_report),
    }
