"""Jobs of a study as processes of this machine."""

from dph._processes.jobs import cores
from dph.lab.study.places import Places

_EXECUTE = "dph.lab.study.execute:execute"


def core_jobs(capacity: int, places: Places) -> cores.CoreJobs:
    """At most ``capacity`` runs at a time; what a failed one said is in the study's logs."""
    return cores.CoreJobs(capacity, places.log, entry=_EXECUTE)
