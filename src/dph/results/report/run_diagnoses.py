"""The diagnosis of every run that has something to be compared with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.results.diagnosis import diagnose, diagnosis_document
from dph.runs.found_runs import FoundRun


def run_diagnoses(
    found: Sequence[FoundRun], keys: Mapping[Path, str]
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The documents of ``dph diagnose`` by the run's key, and why others have none."""
    documents: dict[str, Mapping[str, Any]] = {}
    notes = []
    for run in found:
        if run.base is None or run.path not in keys:
            continue
        try:
            documents[keys[run.path]] = diagnosis_document(diagnose(run.path))
        except DataError as error:  # the rest of the report is of use without it
            notes.append(f"no diagnosis of {run.path}: {error}")
    return documents, notes


def changes_of(document: Mapping[str, Any] | None, set_name: str) -> dict[str, str]:
    """What became of each problem of a set (lost, gained, kept ...), by its id."""
    if document is None or set_name not in document["sets"]:
        return {}
    problems = document["sets"][set_name]["problems"]
    return {problem["problem_id"]: problem["change"] for problem in problems}
