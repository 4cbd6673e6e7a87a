"""What a look at a recipe's things found."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Lines for people, collected by the checks."""

    errors: list[str] = field(default_factory=list)
    """What would end the run."""
    notes: list[str] = field(default_factory=list)
    """What the recipe names and is not there yet, and what is worth knowing."""
    unchecked: list[str] = field(default_factory=list)
    """What could not be looked at: because something is not there, or needs torch."""
