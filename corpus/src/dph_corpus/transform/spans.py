"""A place in a text that a placeholder takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class PrivateSpan:
    """Characters ``start`` to ``end`` of a text, and what they are: email, ip, key, password."""

    start: int
    end: int
    kind: str


def replaced(text: str, findings: list[PrivateSpan]) -> str:
    """``text`` with ``<kind>`` for each finding; of two that overlap the first, longest one."""
    parts, last = [], 0
    for finding in sorted(findings, key=lambda found: (found.start, -found.end)):
        if finding.start >= last:
            parts += [text[last : finding.start], f"<{finding.kind}>"]
            last = finding.end
    return "".join([*parts, text[last:]])
