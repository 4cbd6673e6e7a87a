"""Cutting rows into micro-batches by the tokens that a forward really computes."""

from collections.abc import Sequence

from dph.errors import SettingsError
from dph.models.packing import packed_tokens, rows_by_prompt


def microbatches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of rows, longest first, in lists whose rows x longest row fit ``token_budget``.

    Every row is in exactly one list; a row that is too long by itself gets its own. Sorting by
    length keeps padding small, and as the longest come first, memory runs out at once or never.

    >>> microbatches([3, 9, 4, 2], token_budget=9)
    [[1], [2, 0], [3]]

    Raises:
        SettingsError: ``token_budget`` is below 1.
    """
    _check(token_budget)
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > token_budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches


def packed_microbatches(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    token_budget: int,
) -> list[list[int]]:
    """Indices of rows in lists whose packed tokens fit ``token_budget``, prompts kept together.

    Every row is in exactly one list. The rows of a prompt are in one list, unless they are too
    many: then its prompt is repeated in each of the lists that they fill. The largest come first.

    >>> packed_microbatches([[1] * 4] * 3 + [[2]], [[3, 3]] * 3 + [[3]], token_budget=6)
    [[0, 1], [2, 3]]

    Raises:
        SettingsError: ``token_budget`` is below 1.
    """
    _check(token_budget)
    pieces = [
        (packed_tokens(len(prompts[piece[0]]), [len(completions[row]) for row in piece]), piece)
        for rows in rows_by_prompt(prompts)
        for piece in _pieces(rows, prompts, completions, token_budget)
    ]
    batches: list[list[int]] = []
    left: list[int] = []
    for tokens, piece in sorted(pieces, key=lambda sized: -sized[0]):
        place = next((i for i, room in enumerate(left) if room >= tokens), None)
        if place is None:
            place = len(batches)
            batches.append([])
            left.append(token_budget)
        batches[place].extend(piece)
        left[place] -= tokens
    return batches


def _pieces(
    rows: Sequence[int],
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    token_budget: int,
) -> list[list[int]]:
    """The rows of one prompt, cut where they are more than one forward may hold."""
    pieces: list[list[int]] = []
    room = 0
    for row in rows:
        tokens = packed_tokens(0, [len(completions[row])])
        if not pieces or tokens > room:
            pieces.append([])
            room = token_budget - len(prompts[row])
        pieces[-1].append(row)
        room -= tokens
    return pieces


def _check(token_budget: int) -> None:
    if token_budget < 1:
        raise SettingsError(f"token_budget must be at least 1, got {token_budget}")
