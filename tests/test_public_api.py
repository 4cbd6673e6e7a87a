import subprocess
import sys
import time

import pytest

import dph
import dph.errors
import dph.records


def test_all_is_the_public_api_and_sorted():
    assert dph.__all__ == sorted(dph.__all__)
    assert all(hasattr(dph, name) for name in dph.__all__)


def test_every_error_of_the_package_is_public():
    def below(cls):
        return {cls, *(d for c in cls.__subclasses__() for d in below(c))}

    own = {cls for cls in below(dph.DphError) if cls.__module__ == "dph.errors"}
    assert {cls.__name__ for cls in own} <= set(dph.__all__)


def test_the_error_tree_is_drawn_in_the_docstring():
    for name in dph.__all__:
        if name.endswith("Error"):
            assert f"* {name}" in dph.errors.__doc__


def test_importing_the_package_is_quick_and_loads_no_torch():
    code = (
        "import sys, time; s = time.perf_counter(); import dph; t = time.perf_counter() - s;"
        "print(t, 'torch' in sys.modules, 'pydantic' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert output[1:] == ["False", "False"]
    assert float(output[0]) < 2.0  # 0.2 s on an idle machine


def test_what_needs_no_tensors_loads_no_torch():
    code = (
        "import sys, dph.cli, dph.cli.request, dph.settings, dph.files, dph.verifiers,"
        "dph.tasks.problems; print('torch' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "False"


def test_help_answers_at_once():
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "import sys, dph.cli; sys.exit(dph.cli.main(['--help']))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "quickstart" in done.stdout
    assert time.perf_counter() - started < 5.0  # 0.5 s on an idle machine


def test_a_reward_lies_between_zero_and_one():
    with pytest.raises(ValueError, match="a reward lies in"):
        dph.Verdict(outcome=dph.Outcome.CORRECT, reward=1.5)
