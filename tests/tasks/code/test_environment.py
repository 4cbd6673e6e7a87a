"""The environment ``code``: what its tools tell, what they hide, and what a submission is worth."""

import json

import pytest

from dph import Outcome, Problem, SettingsError, make_verifier
from dph.recipe import resolve_recipe
from dph.runs.task import run_verifier
from dph.tasks.code_environment import code_environment
from dph.tasks.environments import EpisodeLimits
from scripted_policy import START, byte_tokenizer, call, make_draw

CASES = [{"args": [n], "returns": 2 * n} for n in range(4)]
DOUBLE = Problem(
    problem_id="double",
    prompt="Write double(n).",
    answer={"entry_point": "double", "cases": CASES, "visible": {"cases": CASES[:2]}},
)
ECHO = Problem(
    problem_id="echo",
    prompt="Print the input.",
    answer={"cases": [{"stdin": "secret", "stdout": "secret"}]},
)
RIGHT = "def double(n):\n    return 2 * n\n"
SMALL = "def double(n):\n    return 2 * n if n < 2 else 0\n"
LIMITS = EpisodeLimits(seconds=20.0)


@pytest.fixture(scope="module")
def environment():
    with code_environment(limits=LIMITS) as made:
        yield made


def test_a_program_is_run_with_its_input(environment):
    with environment.begin(ECHO) as episode:
        printed, failed, late = episode.step(
            call("run", program="print(input() + '!')", stdin="hello")
            + call("run", program="print(1)\nraise KeyError('k')")
            + call("run", program="while True: pass")
        )
    assert printed.text == "hello!\n"
    assert failed.text.startswith("1\n")
    assert failed.text.endswith("KeyError: k")
    assert late.failed
    assert "it was ended after" in late.text


def test_visible_tests_may_be_text_and_a_program_need_not_define_anything(environment):
    cases = [{"stdin": "2\n", "stdout": "0\n1\n"}]
    shown = {"cases": cases, "visible": json.dumps({"cases": cases})}
    problem = Problem(problem_id="count", prompt="Count.", answer=shown)
    program = "for n in range(int(input())):\n    print(n)\n"
    with environment.begin(problem) as episode:
        [checked] = episode.step(call("check", program=program))
        episode.step(call("submit", program=program))
        answer = episode.answer
    assert checked.text == "all visible tests pass"
    with make_verifier("code") as verifier:
        [verdict] = verifier.grade([problem], [answer])
    assert verdict.outcome is Outcome.CORRECT


def test_the_tests_that_are_shown_are_run_and_no_others(environment):
    with environment.begin(DOUBLE) as episode:
        right, small, wrong = episode.step(
            call("check", program=RIGHT)
            + call("check", program=SMALL)  # right as far as anybody can see
            + call("check", program="def double(n):\n    return n\n")
        )
    assert right.text == small.text == "all visible tests pass"
    assert wrong.text.startswith("WRONG: ")
    with environment.begin(ECHO) as episode:
        [none] = episode.step(call("check", program="print(1)"))
    assert "this task shows no tests: use run" in none.text


HOSTILE = [
    "import os; print(sorted(os.environ), os.getppid())",
    "print(open('/proc/self/environ').read())",
    "import os; os.kill(os.getppid(), 9)",
    "import shutil; shutil.rmtree('/tmp', ignore_errors=True)",
    "import socket; print(socket.create_connection(('127.0.0.1', 80), 1))",
    "import os\nwhile True: os.fork()",
    "print('x' * 10**8)",
    "x = bytearray(10**10)",
    "open('left', 'w').write('x'); print('wrote')",
]


def test_hostile_programs_read_no_hidden_test_and_earn_nothing(tmp_path):
    mark = tmp_path / "kept"
    mark.write_text("kept")

    def script(prompt, index):
        if f"{START}tool" not in prompt:
            return call("run", program=HOSTILE[index])
        return call("submit", program=HOSTILE[index])

    with code_environment(limits=LIMITS) as environment, make_verifier("code") as verifier:
        room = {"max_tokens": 10**4, "tokens": 10**5}
        draw = make_draw(byte_tokenizer(), environment, script, verifier=verifier, **room)
        [group] = draw([ECHO], samples=len(HOSTILE), seed=0).groups
    for graded in group:
        assert graded.verdict.reward == 0.0
        assert "secret" not in graded.completion.text
    assert mark.read_text() == "kept"


def test_a_policy_that_tries_before_it_submits_is_right(environment):
    def script(prompt, index):
        told = prompt.count(f"{START}tool")
        program = (SMALL, RIGHT)[index]
        return call("submit" if told else "check", program=program)

    with make_verifier("code") as verifier:
        draw = make_draw(byte_tokenizer(), environment, script, verifier=verifier)
        [[small, right]] = draw([DOUBLE], samples=2, seed=0).groups
    assert (small.verdict.outcome, right.verdict.outcome) == (Outcome.WRONG, Outcome.CORRECT)
    assert right.style == "check submit"


def test_a_recipe_names_it():
    def recipe(**more):
        about = {"path": "code", "seconds": 7.0, **more}
        data = {"train": "t.jsonl", "verifier": "code"}
        model = {"path": "model"}
        return resolve_recipe(
            {"method": "grpo", "model": model, "data": data, "environment": about}
        )

    with run_verifier(recipe()) as verifier:
        assert verifier.environment.submits == "submit"
        assert verifier.environment.columns == {"seconds": 7.0}
    with pytest.raises(SettingsError, match="path='code' sets submits itself, got 'run'"):
        recipe(submits="run")
