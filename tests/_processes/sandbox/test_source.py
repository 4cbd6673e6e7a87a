import pytest

from dph._processes.sandbox.source import whole_source

PREFIX = "import math\n\ndef half(x):\n    return x / 2\n\ndef f(x):\n    '''Twice x.'''\n"


def run(source, *arguments):
    names = {}
    exec(source, names)
    return names["f"](*arguments)


@pytest.mark.parametrize(
    "answer",
    [
        "    return 2 * x\n",
        "\n    return 2 * x\n\nprint(f(1))\nraise ValueError",
        "    return 2 * x\n# that was it",
        "    return 2 * x\n```\nso it is",
        "    y = x\n\n    return y + x\n\ndef g(): return nothing()\n",
        "def f(x):\n    return half(x) * math.floor(4)\n",
        "def g(x):\n    return x * 2\n\nf = g\n",
    ],
)
def test_an_answer_continues_its_prefix_or_follows_it(answer):
    assert run(whole_source(answer, PREFIX, "f"), 3) == 6


def test_the_stub_of_the_prefix_is_no_answer():
    names = {}
    exec(whole_source("def g(x):\n    return x\n", PREFIX, "f"), names)
    assert "f" not in names
    assert names["half"](4) == 2


def test_without_a_prefix_the_answer_is_all():
    assert whole_source("  odd", "", "f") == "  odd"


def test_a_prefix_that_is_no_python_by_itself_stands_before_a_continuation_alone():
    assert run(whole_source("    return 5", "def f():\n", "f")) == 5
    assert run(whole_source("def f(): return 5", "def f():\n", "f")) == 5
