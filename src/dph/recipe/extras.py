"""Packages that only some settings need: which ones, and what is said where one is missing."""

from dataclasses import dataclass
from importlib.util import find_spec

from dph._base.provenance import install_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A package that comes with an extra of this one.

    >>> print(PEFT.missing)  # doctest: +ELLIPSIS
    [model.adapter] needs PEFT, which is not installed: pip install ...[peft]'
    """

    needed_by: str
    package: str
    title: str
    name: str

    @property
    def is_installed(self) -> bool:
        """Whether the package is there; it is not imported."""
        return find_spec(self.package) is not None

    @property
    def missing(self) -> str:
        """The feature that needs it, and the way to install it."""
        command = install_command(self.name)
        return f"{self.needed_by} needs {self.title}, which is not installed: {command}"


PEFT = Extra(needed_by="[model.adapter]", package="peft", title="PEFT", name="peft")
LIGER = Extra(
    needed_by='model.kernels = "liger"', package="liger_kernel", title="liger-kernel", name="gpu"
)
BITSANDBYTES = Extra(
    needed_by='model.weights = "nf4"', package="bitsandbytes", title="bitsandbytes", name="nf4"
)
TORCHAO = Extra(
    needed_by='model.weights = "bfloat16" without [model.adapter]',
    package="torchao",
    title="torchao",
    name="low-memory",
)
