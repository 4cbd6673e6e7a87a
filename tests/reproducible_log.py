"""Rows of a run's log that a run started again must repeat: all but its clock and its memory."""

from dph.runs.directory import RunDirectory, read_metrics

_OF_THE_MACHINE = ("second", "peak_memory")


def reproducible_log(directory):
    """``metrics.jsonl`` of a run, without what depends on the machine and its other work."""
    return [
        {k: v for k, v in row.items() if not any(word in k for word in _OF_THE_MACHINE)}
        for row in read_metrics(RunDirectory(directory).metrics)
    ]
