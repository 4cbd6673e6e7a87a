"""What is tried of a method: every combination of its strengths, learning rates and weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from dph.errors import SettingsError
from dph.lab.study.settings import MethodSettings, StudyFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way of running a method; None leaves it to the method, the recipe or the world."""

    strength: float | None = None
    learning_rate: float | None = None
    interpolate: float | None = None

    @property
    def firmness(self) -> tuple[float, float, float]:
        """Larger for what stays closer to the base model: a strength, a weight, a step."""
        return (
            self.strength or 0.0,
            -(1.0 if self.interpolate is None else self.interpolate),
            -(self.learning_rate or 0.0),
        )


def candidates_of(
    method: MethodSettings,
    file: StudyFile,
    *,
    chosen: Mapping[str, Candidate],
    usual_strength: float | None,
) -> tuple[Candidate, ...] | None:
    """What is tried of ``method``; None while a method that it follows has not been chosen.

    ``chosen`` are the choices that were made on this world, by label; ``usual_strength`` is the
    method's strength where neither a grid nor another method says it.
    """
    strengths: tuple[float | None, ...] = method.strengths or (usual_strength,)
    rates: tuple[float | None, ...] = method.learning_rates or (file.study.learning_rate,)
    if method.strength_of is not None:
        if method.strength_of not in chosen:
            return None
        strengths = (chosen[method.strength_of].strength,)
    if method.learning_rates is None and (label := rate_follows(method, file)) is not None:
        if label not in chosen:
            return None
        rates = (chosen[label].learning_rate,)
    weights: tuple[float | None, ...] = method.interpolate or (None,)
    return tuple(
        Candidate(strength=s, learning_rate=r, interpolate=w)
        for s, r, w in product(strengths, rates, weights)
    )


def rate_follows(method: MethodSettings, file: StudyFile) -> str | None:
    """The label of the method whose learning rate this one takes."""
    if method.learning_rates is not None:
        return None
    if method.learning_rate_of is not None:
        return method.learning_rate_of
    common = file.study.learning_rate_of
    return None if common == method.label else common


def number_of_candidates(method: MethodSettings) -> int:
    """How many there are, known before anything is chosen."""
    grids = (method.strengths, method.learning_rates, method.interpolate)
    count = 1
    for grid in grids:
        count *= len(grid) if grid is not None else 1
    return count


def is_developed(method: MethodSettings) -> bool:
    """Whether it is run on development seeds: not where all of it is another method's choice."""
    follows = method.strength_of is not None or method.learning_rate_of is not None
    return number_of_candidates(method) > 1 or not follows


def require_no_circle(file: StudyFile) -> None:
    """Refuse methods that wait for each other.

    Raises:
        SettingsError: names them.
    """
    by_label = {method.label: method for method in file.methods}
    for start in file.methods:
        waiting, seen = [start.label], list[str]()
        while waiting:
            label = waiting.pop()
            if label in seen and label == start.label:
                raise SettingsError(
                    f"{start.label!r} waits for what is chosen for itself, over "
                    f"{', '.join(map(repr, seen))}"
                )
            if label in seen:
                continue
            seen.append(label)
            method = by_label[label]
            followed = (method.strength_of, rate_follows(method, file))
            waiting += [name for name in followed if name is not None]
