"""Reading a STUDY.toml and its rule; nothing is run before both are valid."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dph.errors import SettingsError
from dph.lab.study.rule import RuleSettings
from dph.lab.study.settings import BASE, StudyFile
from dph.recipe.error_details import faults_of
from dph.recipe.toml_file import fault, read_table

Table = TypeVar("Table", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A valid study, and the rule that it obeys."""

    path: Path
    file: StudyFile
    rule: RuleSettings
    rule_sha256: str
    """Of the rule's file, byte by byte; of a ``[rule]`` table, of its canonical JSON."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the methods, in the study's order."""
        return tuple(method.label for method in self.file.methods)


def load_study(path: Path) -> Study:
    """Read a study and its rule.

    Raises:
        SettingsError: a file is missing or not TOML, a key is unknown (the nearest is named), a
            value has the wrong type or is out of range, or the rule names a method that the study
            does not have.
    """
    file = _valid(StudyFile, read_table(path, "study"), f"{path}")
    if isinstance(file.rule, str):
        place = path.parent / file.rule
        rule = _valid(RuleSettings, read_table(place, "rule"), f"{place}")
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
    else:
        rule = file.rule
        text = json.dumps(rule.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
    study = Study(path=path, file=file, rule=rule, rule_sha256=digest)
    _require_known_labels(study)
    _require_development_seeds(study)
    return study


def with_settings(study: Study, settings: Mapping[str, Any]) -> Study:
    """The study with other values in ``[study]``; those that are None stay as they are."""
    given = {key: value for key, value in settings.items() if value is not None}
    table = study.file.study.model_copy(update=given)
    return replace(study, file=study.file.model_copy(update={"study": table}))


def _valid(kind: type[Table], table: Mapping[str, Any], place: str) -> Table:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise SettingsError(f"{place}: {'; '.join(_messages(error, kind))}") from error


def _messages(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """What is wrong, with the place, the value and what is allowed."""
    unions = {"rule.str", "rule.RuleSettings"}  # rule is a path or a table: one of the two is meant
    details = faults_of(error)
    whole = isinstance(next((d["input"] for d in details if d["loc"][:1] == ("rule",)), None), dict)
    for item in details:
        if ".".join(map(str, item["loc"][:2])) == "rule.str" and whole:
            continue
        place = [part for part in item["loc"] if f"rule.{part}" not in unions]
        yield fault(item, place, kind)


def _require_known_labels(study: Study) -> None:
    known = (BASE, *study.labels)
    for comparison in study.rule.compare:
        for label in (comparison.a, comparison.b):
            if label not in known:
                raise SettingsError(
                    f"the rule compares {label!r}, which no method is called; there are "
                    f"{', '.join(known)}"
                )


def _require_development_seeds(study: Study) -> None:
    if study.file.study.seeds_development:
        return
    for method in study.file.methods:
        grids = (method.strengths, method.learning_rates, method.interpolate)
        if any(grid is not None and len(grid) > 1 for grid in grids):
            raise SettingsError(
                f"{method.label!r} has several values to choose from, and study.seeds_development "
                "is empty: name the seeds that it is chosen on"
            )
