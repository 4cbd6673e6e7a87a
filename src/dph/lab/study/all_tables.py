"""Every table of a study, in the order in which they are printed and written."""

from collections.abc import Iterator, Mapping

from dph.lab.study.forgetting_tables import forgetting_tables
from dph.lab.study.length_tables import length_tables
from dph.lab.study.power_table import power_table
from dph.lab.study.row_files import RowFile
from dph.lab.study.tables import Report, study_tables
from dph.lab.study.tried_tables import tried_tables
from dph.results.charts.text_table import Table


def all_tables(report: Report, rows: Mapping[str, RowFile]) -> Iterator[Table]:
    """Those of which something is known."""
    yield from study_tables(report)
    yield from length_tables(report)
    if (found := power_table(report)).rows:
        yield found
    yield from forgetting_tables(report)
    yield from tried_tables(report, rows)
