"""What this package asks for, part by part, and what of it is installed."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from packaging.requirements import Requirement

_PACKAGE = "dph-rl"
_PARTS = {
    "": "own engine",
    "trl": "TRL",
    "verl": "verl",
    "vllm": "sampling with vLLM",
    "math": "graders of mathematics",
    "cce": "cut cross-entropy on CUDA",
    "peft": "adapters",
    "low-memory": "training weights in bfloat16",
    "tracking": "trackers",
    "tensorboard": "TensorBoard",
    "wandb": "Weights & Biases",
    "trackio": "Trackio",
}
"""The extras, for people; the empty one is what every run needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A requirement and the version of it that is there; None where it is missing."""

    requirement: Requirement
    version: str | None

    @property
    def fits(self) -> bool:
        """Whether it is there in a version that is asked for."""
        found = self.version
        return found is not None and self.requirement.specifier.contains(found, prereleases=True)

    def __str__(self) -> str:
        """As people read it."""
        name, wanted = self.requirement.name, self.requirement.specifier
        if self.version is None:
            return f"{name} is missing"
        return f"{name} {self.version}" + ("" if self.fits else f", but {wanted} is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An engine or an extra and all that it needs besides the rest."""

    extra: str
    needs: tuple[Installed, ...]

    @property
    def name(self) -> str:
        """Of the extra, or ``own``."""
        return self.extra or "own"

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return all(one.fits for one in self.needs)

    def line(self) -> str:
        """What is there, or what is missing and how it comes."""
        wanted = [one for one in self.needs if not one.fits]
        state = "ready" if self.ready else "not ready"
        told = "; ".join(map(str, wanted or self.needs))
        extra = f"[{self.extra}]" if self.extra else ""
        install = f" (pip install '{_PACKAGE}{extra}')" if wanted else ""
        return f"{_PARTS.get(self.extra, self.extra)}: {state}: {told}{install}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "ready": self.ready,
            "installed": {one.requirement.name: one.version for one in self.needs},
            "missing": [str(one) for one in self.needs if not one.fits],
        }


def parts(package: str = _PACKAGE) -> list[Part]:
    """What every run needs first, then the extras, as the installed package asks for them."""
    asked = [Requirement(text) for text in requires(package) or ()]
    return [Part(extra=extra, needs=tuple(_needs(asked, extra))) for extra in _PARTS]


def _needs(asked: list[Requirement], extra: str) -> Iterator[Installed]:
    for one in asked:
        marker = one.marker
        plain = marker is None or marker.evaluate({"extra": ""})
        if plain if not extra else (not plain and marker and marker.evaluate({"extra": extra})):
            yield Installed(requirement=one, version=_version(one.name))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
