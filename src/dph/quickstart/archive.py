"""Data of the quickstart: one archive with a folder per task, identical on every machine.

``lab/quickstart/archive.py`` in the repository writes the archive.
"""

import io
import tarfile
from hashlib import sha256
from pathlib import Path, PurePosixPath

from dph._base.files import atomic_path, make_directory, read_json, write_json
from dph.errors import DataError, SettingsError

ARCHIVE = Path(__file__).with_name("quickstart.tar")
DIGEST = "ceb834741aa156e1246ed301a2a5b2c68a486bf93736d9763dafae9407f606f0"
"""SHA-256 of ``ARCHIVE``."""
TASKS = ("countdown", "sql")
MADE_FROM = "quickstart.json"
"""Name of a file that is written last and marks a folder as fully unpacked."""


def unpack(task: str, out: Path, *, seed: int, tiny: bool = False) -> None:
    """Unpack a task into ``out``, unless the same quickstart was already unpacked there.

    ``tiny`` keeps only the first 24 problems of each file.

    Raises:
        SettingsError: there is no such task.
        DataError: ``out`` has a different quickstart, or the archive is damaged.
    """
    settings = {"schema": 1, "task": task, "seed": seed, "tiny": tiny, "archive": DIGEST}
    made = out / MADE_FROM
    if made.exists():
        if (found := read_json(made)) != settings:
            raise DataError(
                f"{out} has a quickstart made from {found}, not {settings}; choose another "
                "directory (--out) or remove this one"
            )
        return
    files = task_files(task)
    make_directory(out)
    for name, content in files.items():
        make_directory((out / name).parent)
        if tiny and PurePosixPath(name).parts[0] == "problems":
            content = b"".join(content.splitlines(keepends=True)[:24])
        with atomic_path(out / name) as temporary:
            temporary.write_bytes(content)
    write_json(made, settings)


def task_files(task: str) -> dict[str, bytes]:
    """Content of each file of a task, by its path relative to the task's folder.

    Raises:
        SettingsError: there is no such task.
        DataError: the archive is damaged.
    """
    if task not in TASKS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}")
    data = ARCHIVE.read_bytes()
    if (found := sha256(data).hexdigest()) != DIGEST:
        raise DataError(f"{ARCHIVE} is damaged: its SHA-256 is {found}, not {DIGEST}")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return {
            member.name.removeprefix(f"{task}/"): stream.read()
            for member in archive
            if member.name.startswith(f"{task}/") and (stream := archive.extractfile(member))
        }
