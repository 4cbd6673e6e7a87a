"""What a look at a recipe's things found."""

from dataclasses import dataclass, field

from dph.runs.memory import Device, MemoryEstimate


@dataclass(slots=True, kw_only=True)
class Findings:
    """Lines for people, collected by the checks."""

    errors: list[str] = field(default_factory=list)
    """What would end the run."""
    notes: list[str] = field(default_factory=list)
    """What the recipe names and is not there yet, and what is worth knowing."""
    unchecked: list[str] = field(default_factory=list)
    """What could not be looked at: because something is not there, or needs torch."""
    memory: MemoryEstimate | None = None
    """What training and sampling will take; None where it could not be told."""
    device: Device | None = None
    """Where they would run."""
