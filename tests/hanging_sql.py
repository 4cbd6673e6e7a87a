"""A statement that hangs on a fast machine too: it never gets to where SQLite sees the clock."""

HANG = "SELECT " + " + ".join(
    f"instr(hex(zeroblob(499999)), hex(zeroblob(249999)) || '{k}')" for k in range(1, 7)
)
"""Six calls that each compare half a million places with half a million characters."""
