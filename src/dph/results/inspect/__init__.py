"""A run's evaluation as logs of Inspect (inspect.aisi.org.uk), which ``inspect view`` opens.

Only the format is used: nothing of Inspect has to be installed to write its logs.
"""

from dph.results.inspect.log_files import InspectLog, write_inspect_logs

__all__ = ["InspectLog", "write_inspect_logs"]
