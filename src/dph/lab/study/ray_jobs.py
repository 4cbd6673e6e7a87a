"""Runs of a study on a Ray cluster. Its directory must lie where every machine can write."""

from typing import Any

from dph._processes.jobs import cores
from dph._processes.jobs.cores import RayJobs, connected_ray
from dph.lab.study.places import Places

# Jobs of a study as processes of this machine.

_EXECUTE = "dph.lab.study.execute:execute"


def core_jobs(capacity: int, places: Places) -> cores.CoreJobs:
    """At most ``capacity`` runs at a time; what a failed one said is in the study's logs."""
    return cores.CoreJobs(capacity, places.log, entry=_EXECUTE)


def study_ray_jobs(capacity: int | None) -> RayJobs:
    """Runner of a study's jobs, ``capacity`` at a time.

    Raises:
        SettingsError: Ray is not installed.
    """
    return RayJobs(capacity, connected_ray(), execute_run)


def execute_run(payload: dict[str, Any]) -> None:
    """Compute a run or a base model, on the cluster."""
    from dph.lab.study.execute import execute  # noqa: PLC0415 - loads torch, on the cluster alone

    execute(payload)
