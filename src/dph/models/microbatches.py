"""Cutting rows into micro-batches by their size in tokens."""

from collections.abc import Sequence

from dph.errors import SettingsError


def microbatches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of rows, longest first, in lists whose rows x longest row fit ``token_budget``.

    Every row is in exactly one list; a row that is too long by itself gets its own. Sorting by
    length keeps padding small, and as the longest come first, memory runs out at once or never.

    >>> microbatches([3, 9, 4, 2], token_budget=9)
    [[1], [2, 0], [3]]

    Raises:
        SettingsError: ``token_budget`` is below 1.
    """
    if token_budget < 1:
        raise SettingsError(f"token_budget must be at least 1, got {token_budget}")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > token_budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches
