"""Lay out wheels for a machine that has torch and transformers, but no network.

    python -m lab.benchmarks.gpu.kit DIR [--extras gpu,peft,low-memory] [--tests] [--trl]

Holds the package's own wheel, and of what it needs everything that images with torch usually lack,
for Python 3.12 on x86-64. Prints the command to run there, in a copy of this checkout.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
MOST = 64 * 2**20
_THERE = """
    accelerate aiohappyeyeballs aiohttp aiosignal annotated-doc anyio attrs certifi
    charset-normalizer click contourpy cycler filelock fonttools frozenlist fsspec h11 hf-xet
    httpcore httpx huggingface-hub idna iniconfig jinja2 kiwisolver markdown-it-py markupsafe
    matplotlib mdurl mpmath multidict networkx numpy packaging pandas peft pillow pluggy
    propcache psutil pyarrow pygments pyparsing pytest python-dateutil pytz pyyaml regex
    requests rich safetensors scipy setuptools shellingham six sniffio sympy tokenizers torch
    tqdm transformers triton typer typing-extensions tzdata urllib3 yarl
"""
THERE = frozenset(_THERE.split())
"""Packages of images for training. Any other that the package needs goes along."""
ENVIRONMENT = {
    "python_version": "3.12",
    "python_full_version": "3.12.3",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
LINUX = ("2_28", "2_27", "2_24", "2_17", "2014", "2_12", "2010", "2_5", "1")
TESTS = ("pytest>=8.3", "pytest-xdist>=3.6", "beartype>=0.20", "hypothesis>=6.100")
TRL = ("trl>=1.12,<2", "datasets>=4,<6")
COMMAND = """\
python3 -m pip install --quiet --no-index --no-deps --upgrade --target /tmp/site {kit}/*.whl &&
PYTHONPATH=/tmp/site:tests:. python3 -m lab.benchmarks.gpu --out ${{OUT:-gpu-check}}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the directory; 1 if it became too large."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.gpu.kit")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--extras", default="gpu,peft,low-memory", help="of this package")
    parser.add_argument("--tests", action="store_true", help="and what pytest -m gpu needs")
    parser.add_argument("--trl", action="store_true", help="and TRL, to compare with")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(options.directory), str(ROOT)], check=True)
    also = [*(TESTS if options.tests else ()), *(TRL if options.trl else ())]
    for requirement in needed(options.extras.split(","), also):
        fetch(requirement, options.directory)
    wheels = sorted(options.directory.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels)
    print("\n".join(f"{wheel.stat().st_size / 2**20:7.2f} MiB  {wheel.name}" for wheel in wheels))
    print(f"{size / 2**20:7.2f} MiB together. There, in a copy of this checkout:\n")
    print(COMMAND.format(kit=options.directory))
    if size > MOST:
        print(f"\nabove {MOST / 2**20:.0f} MiB: leave extras out", file=sys.stderr)
    return int(size > MOST)


def needed(extras: Sequence[str], also: Sequence[str] = ()) -> list[Requirement]:
    """Requirements of the package itself, of those extras, and others.

    Without vl-convert (32 MiB), because no check draws a picture.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [text for extra in extras if extra for text in project["optional-dependencies"][extra]]
    own = (text for text in project["dependencies"] if not text.startswith("vl-convert"))
    return [Requirement(text) for text in (*own, *named, *also)]


def is_there(requirement: Requirement) -> bool:
    """Whether such images have it, or the machine needs none."""
    marker = requirement.marker
    known = canonicalize_name(requirement.name) in THERE
    return known or not (marker is None or marker.evaluate(ENVIRONMENT))


def fetch(requirement: Requirement, directory: Path) -> None:
    """A wheel and, from its metadata, those that it needs."""
    if is_there(requirement) or _has(directory, requirement.name):
        return
    tags = [x for version in LINUX for x in ("--platform", f"manylinux{_tag(version)}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--python-version", "3.12", *tags]
    text = f"{requirement.name}{requirement.specifier}"
    subprocess.run([*command, "--dest", str(directory), text], check=True)
    (wheel,) = _has(directory, requirement.name)
    for further in requirements_of(wheel):
        fetch(further, directory)


def _tag(version: str) -> str:
    return f"_{version}" if "_" in version else version


def _has(directory: Path, name: str) -> list[Path]:
    wanted = canonicalize_name(name)
    return [w for w in directory.glob("*.whl") if canonicalize_name(w.name.split("-")[0]) == wanted]


def requirements_of(wheel: Path) -> Iterator[Requirement]:
    """What a wheel says that it needs, without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    yield from map(Requirement, metadata.get_all("Requires-Dist", []))


if __name__ == "__main__":
    sys.exit(main())
