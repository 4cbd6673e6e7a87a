"""Provenance of a result and of this package: commit, versions, and the way to install more.

A wheel holds its commit (``hatch_build.py`` writes it). A checkout is asked by git.
"""

import json
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

UNKNOWN = "unknown"
CHANGED = "+changes"
"""Follows the commit of a checkout whose package has changes that are not committed."""
PACKAGE = "dph-rl"
_HERE = Path(__file__).parents[1]
_IN_WHEEL = _HERE / "commit.txt"
_DECIDING = (PACKAGE, "torch", "transformers", "tokenizers", "numpy")


@cache
def code_commit() -> str:
    """The commit of this package, in hex; ``unknown`` outside a checkout and a built wheel.

    >>> len(code_commit()) >= len(UNKNOWN)
    True
    """
    if _IN_WHEEL.exists():
        return _IN_WHEEL.read_text(encoding="ascii").strip()
    return commit_of(_HERE)


def commit_of(directory: Path) -> str:
    """The commit that a directory of a git checkout is at, with a mark where it was changed."""
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return UNKNOWN
    changed = _git(directory, "status", "--porcelain", "--", ".")
    return commit + CHANGED if changed else commit


def versions(kernels: str) -> str:
    """Python, the packages that decide numbers, and the kernels that torch computes with.

    ``kernels`` are those of ``dph.model.loading.computed_by``: a model trained with AVX2 has other
    bits than one trained with AVX-512.
    """
    found = [f"python {platform.python_version()}"]
    found += [f"{name} {version(name)}" for name in _DECIDING]
    return ", ".join([*found, f"{platform.machine()} {kernels}"])


def install_command(extra: str = "", package: str = PACKAGE) -> str:
    """The command that adds an extra to ``package``, from the checkout or wheel that it came from.

    The packages are on no index. pip records where it found a package (PEP 610).
    """
    try:
        recorded = json.loads(distribution(package).read_text("direct_url.json") or "{}")
        url = urlsplit(recorded.get("url", ""))
        editable = recorded.get("dir_info", {}).get("editable", False)
        place = url2pathname(url.path) if url.scheme == "file" else package
    except PackageNotFoundError:  # a checkout on the search path
        checkout, editable = _HERE.parents[1], True
        found = package == PACKAGE and (checkout / "pyproject.toml").exists()
        place = str(checkout) if found else package
    wanted = f"[{extra}]" if extra else ""
    return f"pip install {'-e ' if editable and place != package else ''}'{place}{wanted}'"


def _git(directory: Path, *words: str) -> str | None:
    asked = ["git", "-C", str(directory), *words]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
