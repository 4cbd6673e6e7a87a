"""What format 1 of the pool said otherwise."""

import pyarrow as pa
import pyarrow.compute as pc

from dph.records import Outcome


def with_cut_off(samples: pa.Table) -> pa.Table:
    """The samples with CUT_OFF where format 1 said OVER_LIMIT of an answer without an end."""
    outcome = samples["outcome"]
    cut_off = pc.and_(pc.invert(samples["finished"]), pc.equal(outcome, Outcome.OVER_LIMIT.value))
    place = samples.schema.get_field_index("outcome")
    return samples.set_column(
        place, samples.schema.field(place), pc.if_else(cut_off, Outcome.CUT_OFF.value, outcome)
    )
