"""``dph compare``: runs side by side, each against the first."""

def compare() -> None:
    """Later."""
