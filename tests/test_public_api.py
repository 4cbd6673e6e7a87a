import ast
import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

import dph
import dph.errors
import dph.records
from dph.records import Outcome, Problem, Verdict

PUBLIC = """
Alpha CheckpointError Completion DataError DphError ForwardKL GradedCompletion JensenShannon
ModelError Outcome PoolError Problem ReverseKL SettingsError StageError TrainingError Verdict
VerifierError
compare diagnose evaluate grade_code grade_math grade_sql load_pool load_problems load_recipe
load_run make_divergence make_verifier pass_at_k plot presample report run run_verifier
"""
LAZY_NAMES = "runs runs.evaluate runs.presample runs.train"
LAZY = ["dph", *(f"dph.{n}" for n in LAZY_NAMES.split())]
OTHERS = "_base.files loss.divergences loss.objectives recipe tasks.grading tasks.verifiers"
PACKAGES = [*LAZY, *(f"dph.{n}" for n in OTHERS.split())]


def test_the_top_level_holds_what_a_notebook_needs_and_type_checkers_see_the_same():
    modules = {path.stem for path in Path(dph.__file__).parent.iterdir()}
    offered = [name for name in dir(dph) if name[0] != "_" and name not in modules]
    assert sorted(offered) == sorted(PUBLIC.split())
    tree = ast.parse(Path(dph.__file__).read_text("utf-8"))
    [told] = [
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    assert told == PUBLIC.split()


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "dph"])
def test_all_is_what_a_package_offers_and_sorted(package):
    module = importlib.import_module(package)
    assert module.__doc__
    assert module.__all__ == sorted(module.__all__, key=natural)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def natural(name):
    """Constants, then classes, then functions, as the linter sorts them."""
    return (not name.isupper(), not name[0].isupper(), name)


@pytest.mark.parametrize("package", LAZY)
def test_what_a_package_does_not_offer_is_named(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        getattr(importlib.import_module(package), "nothing")  # noqa: B009


def test_importing_the_packages_loads_no_torch():
    more = "cli.options _base.files recipe tasks.grading tasks.verifiers tasks.problems"
    named = [*LAZY, *(f"dph.{name}" for name in more.split())]
    code = f"import sys, {', '.join(named)}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
    assert packages_of_others("import dph")[0] == set()


def test_help_reads_like_a_table_of_contents_and_loads_what_prints_it_alone():
    text = pydoc.plain(pydoc.render_doc(dph))
    for name in PUBLIC.split():
        assert name in text
    assert text.index("From a notebook") < text.index("PACKAGE CONTENTS")
    assert len(text.splitlines()) <= 120
    loaded, said = packages_of_others("import dph.cli; assert dph.cli.main(['--help']) == 0")
    assert "quickstart" in said
    printing = {"typer", "click", "rich", "pygments", "markdown_it", "mdurl", "shellingham"}
    assert loaded <= printing | {"annotated_doc", "typing_extensions"}


def test_each_public_thing_says_what_it_is_and_every_error_is_public_and_drawn():
    for name in PUBLIC.split():
        assert getattr(dph, name).__doc__, name

    def below(cls):
        return {cls, *(d for c in cls.__subclasses__() for d in below(c))}

    own = {cls for cls in below(dph.DphError) if cls.__module__ == "dph.errors"}
    assert {cls.__name__ for cls in own} <= set(PUBLIC.split())
    for name in PUBLIC.split():
        if name.endswith("Error"):
            assert f"* {name}" in dph.errors.__doc__


def packages_of_others(code):
    program = (
        f"import sys; before = set(sys.modules); {code};"
        "found = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(*sorted(found - set(sys.stdlib_module_names) - {'dph'}), sep=' ', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split()), done.stdout


def test_no_name_that_is_loaded_late_is_that_of_a_file_in_its_package():
    # Importing the file would put the module in the name's place.
    clashes = [
        f"{package.parent.name}.{name}"
        for package in (Path(dph.__file__).parent).rglob("__init__.py")
        for name in re.findall(r'^ +"(\w+)": "dph\.', package.read_text(), re.MULTILINE)
        if (package.parent / f"{name}.py").exists() or (package.parent / name).is_dir()
    ]
    assert clashes == []


def test_a_name_that_moved_is_refused_with_its_place():
    with pytest.raises(ImportError, match=r"make_objective moved to dph\.runs\.objective"):
        importlib.import_module("dph.loss.objectives").make_objective  # noqa: B018
    assert not hasattr(importlib.import_module("dph.loss.objectives"), "nothing")


@pytest.mark.parametrize("outcome", ["CORRECT", "correct", True, None, 1])
def test_an_outcome_that_is_no_outcome_is_refused_with_what_is_allowed(outcome):
    with pytest.raises(TypeError) as caught:
        Verdict(outcome=outcome, reward=1.0)
    for part in (repr(outcome), "Outcome.CORRECT", "BAD_GOLD"):
        assert part in str(caught.value)
    assert [Verdict(outcome=each, reward=0.0).outcome for each in Outcome] == list(Outcome)


@pytest.mark.parametrize("reward", ["1", None])
def test_a_reward_that_is_no_number_is_refused_with_what_is_allowed(reward):
    with pytest.raises(TypeError, match=rf"a reward is a number in \[0, 1\], got {reward!r}"):
        Verdict(outcome=Outcome.CORRECT, reward=reward)
    with pytest.raises(ValueError, match="a reward lies in"):
        Verdict(outcome=Outcome.CORRECT, reward=1.5)


@pytest.mark.parametrize("answer", ["42", 42, None, [("answer", "42")]])
def test_an_answer_that_is_no_mapping_is_refused_with_an_example(answer):
    with pytest.raises(TypeError) as caught:
        Problem(problem_id="p 1", prompt="?", answer=answer)
    for part in ("'p 1'", repr(answer), "{'answer': '42'}"):
        assert part in str(caught.value)
    for mapping in ({}, {"answer": 1}, MappingProxyType({"a": 1})):
        assert Problem(problem_id="p", prompt="?", answer=mapping).answer == mapping
