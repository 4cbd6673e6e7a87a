import subprocess
import sys

import pytest

from dph._processes.sandbox.confinement import FileRules

CHILD = """
import sys
from pathlib import Path
from dph._processes.sandbox import seccomp as kernel
from dph._processes.sandbox.confinement import FileRules
readable, writable, other = map(Path, sys.argv[1:])
rules = FileRules(readable=[readable, Path("/nowhere")], writable=[writable])
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
rules.restrict()
rules.close()
def tried(action):
    try:
        action()
        return "yes"
    except PermissionError:
        return "no"
for folder in (readable, writable, other):
    print(tried((folder / "a").read_text), tried(lambda: (folder / "a").write_text("x")),
          tried((folder / "b").touch), tried((folder / "d").mkdir), tried((folder / "a").unlink))
"""


@pytest.fixture
def _landlock(tmp_path):
    try:
        FileRules(readable=[tmp_path], writable=[]).close()
    except OSError as error:
        pytest.skip(f"this machine has no Landlock: {error}")


@pytest.mark.usefixtures("_landlock")
def test_only_what_is_named_can_be_read_or_written(tmp_path):
    folders = [tmp_path / name for name in ("readable", "writable", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "a").write_text("a")
    out = subprocess.run(
        [sys.executable, "-c", CHILD, *folders], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines() == ["yes no no no no", "yes yes yes yes yes", "no no no no no"]
    assert (folders[2] / "a").read_text() == "a"
