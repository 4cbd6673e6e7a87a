"""Leaves the commit in what is built, as ``dph/commit.txt``: a wheel knows no git."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "commit.txt"


class CommitHook(BuildHookInterface[Any]):
    """A source distribution that has the file already keeps it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to the wheel or to the source distribution."""
        package = Path(self.root) / "src" / "dph"
        if version == "editable" or (package / NAME).exists():
            return
        # The module alone: the package itself needs what is not installed where it is built.
        provenance = runpy.run_path(str(package / "_base" / "provenance.py"))
        path = Path(tempfile.mkdtemp()) / NAME
        path.write_text(provenance["commit_of"](package) + "\n", encoding="ascii")
        inside = f"src/dph/{NAME}" if self.target_name == "sdist" else f"dph/{NAME}"
        build_data["force_include"][str(path)] = inside
