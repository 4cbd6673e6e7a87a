"""Cutting requests into waves: which rows are decoded together."""

from collections.abc import Sequence
from dataclasses import dataclass

from dph.rollout.base import SampleRequest


@dataclass(frozen=True, slots=True)
class Row:
    """One completion to draw: its place in the requests, and its prompt's place in the wave."""

    request: int
    sample_index: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Wave:
    """Distinct prompts, each prefilled once, and the rows that are decoded from them."""

    prompts: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]


def plan_waves(requests: Sequence[SampleRequest], *, max_rows: int) -> list[Wave]:
    """Cut the requests into waves of at most ``max_rows`` rows.

    A function of the arguments alone. Requests with the same prompt share its prefill. Longer
    prompts come first, so that rows of a wave have prompts of similar length and the largest wave
    is met at once. A prompt is split over waves only if its rows do not fit into one.
    """
    wanted: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for position, request in enumerate(requests):
        samples = range(request.first_index, request.first_index + request.samples)
        wanted.setdefault(request.prompt_ids, []).extend((position, index) for index in samples)

    waves: list[Wave] = []
    prompts: list[tuple[int, ...]] = []
    rows: list[Row] = []

    def close() -> None:
        if rows:
            waves.append(Wave(prompts=tuple(prompts), rows=tuple(rows)))
            prompts.clear()
            rows.clear()

    for prompt, keys in sorted(wanted.items(), key=lambda item: -len(item[0])):
        if len(rows) + len(keys) > max_rows:
            close()
        for start in range(0, len(keys), max_rows):
            part = keys[start : start + max_rows]
            if len(rows) + len(part) > max_rows:
                close()
            rows.extend(Row(request, index, len(prompts)) for request, index in part)
            prompts.append(prompt)
    close()
    return waves
