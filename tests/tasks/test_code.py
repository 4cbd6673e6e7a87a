import base64
import json
import pickle
import zlib

import pytest

from dph import Outcome, Problem, SettingsError, make_verifier
from dph.errors import DataError
from dph.recipe import resolve_recipe
from dph.runs.answers import run_verifier
from dph.tasks.code import humaneval_problem, livecodebench_problem, load_code, solvable
from dph.tasks.code_environment import code_environment
from dph.tasks.environments import EpisodeLimits
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from scripted_policy import START, byte_tokenizer, call, make_draw

HUMANEVAL = {
    "task_id": "Own/0",
    "prompt": (
        "from typing import List\n\ndef base(x: int) -> int:\n    return x % 5\n\n\n"
        'def shift(xs: List[int], by: int) -> List[int]:\n    """Add by to each, modulo 5."""\n'
    ),
    "entry_point": "shift",
    "canonical_solution": "    return [base(x + by) for x in xs]\n",
    "test": (
        "METADATA = {}\n\ndef check(candidate):\n    assert candidate([1, 4], 1) == [2, 0]\n"
        "    assert [base(x) for x in [7]] == candidate([6], 1) == shift([6], 1)\n"
    ),
}
MBPP = {
    "task_id": 2,
    "text": "Write a function to sum the values of a chain of nodes.",
    "code": "def total(node):\n    return node[0] + (total(node[1]) if node[1] else 0)\n",
    "test_setup_code": "root = (1, (2, None))",
    "test_list": ["assert total(root) == 3", "assert total((7, None)) == 7"],
    "challenge_test_list": ["assert total(root[1]) == 2"],
}
SANITIZED = {
    "source_file": "x",
    "task_id": 3,
    "prompt": "Write a function to take a root.",
    "code": "def root(x):\n    return x ** 0.5\n",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(root(2), 1.41421356, rel_tol=1e-6)"],
}


def packed(cases):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()


def stdin(given, printed):
    return {"input": given, "output": printed, "testtype": "stdin"}


STDIN = {
    "question_title": "Sum",
    "question_content": "Print the sum.",
    "question_id": "abc1_a",
    "starter_code": "",
    "public_test_cases": json.dumps([stdin("1 2\n", "3\n")]),
    "private_test_cases": packed([stdin("2 2\n", "4\n")]),
    "metadata": "{}",
}
FUNCTIONAL = {
    "question_title": "Pairs",
    "question_content": "Return the pairs.",
    "question_id": "12",
    "starter_code": (
        "class Solution:\n    def pairs(self, xs: List[int], n: int) -> List[int]:\n        "
    ),
    "public_test_cases": json.dumps(
        [{"input": "[1, 2]\n3", "output": "[[1, 3], [2, 3]]", "testtype": "functional"}]
    ),
    "private_test_cases": json.dumps(
        [{"input": '["a"]\nnull', "output": '[["a", null]]', "testtype": "functional"}]
    ),
    "metadata": json.dumps({"func_name": "pairs"}),
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def verifier():
    with CodeVerifier(timeout=20.0) as made:
        yield made


def outcome(verifier, made, program):
    task = parse_task(made.problem.answer, "p")
    (judged,) = verifier.judge([CodePair(task, program)])
    return judged.verdict.outcome.value


def test_humanevals_shape(tmp_path, verifier):
    (made,) = load_code(write(tmp_path / "h.jsonl", HUMANEVAL), "humaneval")
    assert made.problem.problem_id == "Own/0"
    assert "def shift(xs" in made.problem.prompt
    whole = "def shift(xs, by):\n    return [base(x + by) for x in xs]\n"
    assert outcome(verifier, made, made.solution) == "CORRECT"
    assert outcome(verifier, made, whole) == "CORRECT"
    assert outcome(verifier, made, "    return xs\n") == "WRONG"
    # The functions of the task are its own, also where a program has others of that name.
    assert outcome(verifier, made, f"def base(x): return 0\n{whole}") == "WRONG"


@pytest.mark.parametrize(("row", "name"), [(MBPP, "total"), (SANITIZED, "root")])
def test_both_shapes_of_mbpp(tmp_path, verifier, row, name):
    (made,) = load_code(write(tmp_path / "m.jsonl", row), "mbpp")
    assert made.problem.problem_id == f"mbpp-{row['task_id']}"
    assert made.problem.answer["entry_point"] == name
    assert row["test_list"][0] in made.problem.prompt
    assert outcome(verifier, made, made.solution) == "CORRECT"
    assert outcome(verifier, made, made.solution.replace("**", "*").replace("+", "-")) == "WRONG"


def test_livecodebenchs_shapes_for_programs_that_read_and_print_and_for_functions(
    tmp_path, verifier
):
    (made,) = load_code(write(tmp_path / "l.jsonl", STDIN), "livecodebench")
    assert made.problem.problem_id == "abc1_a"
    assert len(made.problem.answer["cases"]) == 2
    summed = "print(reduce(operator.add, map(int, input().split())))"
    assert outcome(verifier, made, summed) == "CORRECT"  # the usual imports stand before it
    assert outcome(verifier, made, "print(3)") == "WRONG"
    (made,) = load_code(write(tmp_path / "l.jsonl", FUNCTIONAL), "livecodebench")
    assert made.problem.answer["entry_point"] == "Solution.pairs"
    assert FUNCTIONAL["starter_code"].rstrip() in made.problem.prompt
    right = f"{FUNCTIONAL['starter_code']}return [(x, n) for x in xs]"
    assert outcome(verifier, made, right) == "CORRECT"
    assert outcome(verifier, made, right.replace("(x, n)", "(n, x)")) == "WRONG"


USES = {
    "a star of each module": (
        "assert ascii_lowercase and fullmatch and timedelta(1) and Counter('a')['a']\n"
        "assert heapify([]) is None and insort([], 1) is None and deepcopy([1]) == [1]\n"
        "assert gcd(4, 6) == 2 and randint(1, 1) == 1 and median([1, 2]) == 1.5 and accumulate\n"
        "assert reduce(mul, [2, 3]) == 6 and StringIO and maxsize and dumps([]) and DefaultDict"
    ),
    "the modules": (
        "assert json.loads('1') and io.StringIO('') and statistics.mean([1]) and datetime.date.min"
    ),
    "of two names the later": (
        "assert copy.copy(1) and datetime.datetime.min and bisect.bisect([1], 1) and sub(3, 1) == 2"
        "\nassert pow(2, 3, 5) == 3 and sum([1]) == 1 and open and random.random() < 1"
    ),
    "deep recursion": "def deep(k): return k and 1 + deep(k - 1)\nassert deep(45000) == 45000",
    "deep recursion through C": (
        "@cache\ndef deep(k): return k and 1 + deep(k - 1)\nassert deep(15000) == 15000"
    ),
    "a limit of its own": "setrecursionlimit(200)\nassert sys.getrecursionlimit() == 200",
}
LACKS = {
    "numpy": "np.zeros(1)",
    "a class that a module hides": "datetime.now()",
    "a function that a module hides": "copy([1])",
    "recursion without an end": "def deep(k): return deep(k + 1)\ndeep(0)",
    "a module of Python that is not there": "time.time()",
}


@pytest.mark.parametrize("name", [*USES, *LACKS])
def test_programs_of_livecodebench_have_its_imports_and_its_recursion_limit(verifier, name):
    use = {**USES, **LACKS}[name]
    script = f"{use}\nprint(sum(map(int, input().split())))"
    body = use.replace("\n", "\n        ")
    method = f"class Solution:\n    def pairs(self, xs, n):\n        {body}\n"
    method += "        return [(x, n) for x in xs]"
    made = [livecodebench_problem(row, "here") for row in (STDIN, FUNCTIONAL)]
    found = [outcome(verifier, *pair) for pair in zip(made, (script, method), strict=True)]
    assert found == ["CORRECT" if name in USES else "WRONG"] * 2


def test_other_sets_have_neither(verifier):
    for use in ("median([1])", "def deep(k): return k and 1 + deep(k - 1)\ndeep(5000)"):
        task = parse_task({"tests": ["assert f() == 1"], "entry_point": "f"}, "p")
        (judged,) = verifier.judge([CodePair(task, f"{use}\ndef f(): return 1")])
        assert judged.verdict.outcome.value == "INVALID"


CHECK = "def check(candidate):\n    assert candidate([1, 4]) == 5\n    assert candidate([]) == 0\n"
HEADS = {
    "a signature": ("def total(xs):\n", "    return sum(xs)\n"),
    "a signature of many lines": ("def total(\n    xs,\n) -> int:\n", "    return sum(xs)\n"),
    "helpers": (
        "import math\n\ndef helper(xs):\n    return math.fsum(xs)\n\ndef total(xs):\n",
        "    return helper(xs)\n",
    ),
    "half of its documentation": ('def total(xs):\n    """Add', ' all."""\n    return sum(xs)\n'),
    "half of a loop": (
        "def total(xs):\n    s = 0\n    for x in xs:\n",
        "        s += x\n    return s\n",
    ),
    "a body": ('def total(xs):\n    """Add."""\n', "    return sum(xs)\n"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_prompt_and_the_solution_are_one_program_wherever_the_prompt_ends(verifier, name):
    head, rest = HEADS[name]
    row = HUMANEVAL | {"prompt": head, "entry_point": "total", "test": CHECK}
    made = humaneval_problem(row | {"canonical_solution": rest}, "here")
    body = rest.replace('all."""\n', "").strip() if name.startswith("half") else rest.strip()
    whole = f"def total(xs):\n    {'return sum(xs)' if name.startswith('half') else body}\n"
    for program in (rest, head + rest, whole):
        expected = "INVALID" if program == head + rest and head[-1] == ":" else "CORRECT"
        assert outcome(verifier, made, program) in ("CORRECT", expected), program
    for wrong in (rest.replace("sum(xs)", "max(xs)"), whole.replace("return ", "return 1 + ")):
        if wrong not in (rest, whole):
            assert outcome(verifier, made, wrong) == "WRONG", wrong
    assert outcome(verifier, made, "def other(xs):\n    return sum(xs)\n") == "INVALID"


def test_a_method_continues_a_class(verifier):
    row = HUMANEVAL | {"prompt": "class Adder:\n    def total(self, xs):\n"}
    method = row | {"entry_point": "Adder.total", "test": CHECK}
    made = humaneval_problem(method, "here")
    assert outcome(verifier, made, "        return sum(xs)\n") == "CORRECT"
    assert outcome(verifier, made, "        return max(xs)\n") == "WRONG"
    test = "def check(candidate):\n    assert candidate().total([1, 4]) == 5\n"
    made = humaneval_problem(row | {"entry_point": "Adder", "test": test}, "here")
    assert outcome(verifier, made, "        return sum(xs)\n") == "BAD_GOLD"


class Bomb:
    def __reduce__(self):
        return (print, ("run",))


@pytest.mark.parametrize(
    "content", [pickle.dumps(Bomb()), pickle.dumps(["a", "b"]), pickle.dumps(5), b"no pickle", b""]
)
def test_a_pickle_that_is_more_than_a_text_is_refused_and_never_run(tmp_path, capsys, content):
    bad = base64.b64encode(zlib.compress(content)).decode()
    path = write(tmp_path / "l.jsonl", STDIN | {"private_test_cases": bad})
    with pytest.raises(DataError, match=r"l\.jsonl.*private_test_cases: cases"):
        load_code(path, "livecodebench")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("humaneval", HUMANEVAL | {"prompt": ""}, "'prompt' must be text, got ''"),
        ("humaneval", HUMANEVAL | {"test": None}, "'test' must be text, got None"),
        ("mbpp", MBPP | {"task_id": None}, "'task_id' must be a number or a text"),
        ("mbpp", MBPP | {"test_list": "assert"}, "'test_list' must be a list of texts"),
        ("mbpp", MBPP | {"test_list": ["assert f("]}, "its code or its tests are not valid Python"),
        (
            "mbpp",
            MBPP | {"test_list": ["assert f(1)"]},
            "no test calls anything that the code defines",
        ),
        ("livecodebench", STDIN | {"public_test_cases": "[{]"}, "cases are not JSON"),
        ("livecodebench", STDIN | {"public_test_cases": [3]}, "cases must be a list of objects"),
        ("livecodebench", STDIN | {"private_test_cases": "%%"}, "cases cannot be unpacked"),
        ("livecodebench", FUNCTIONAL | {"metadata": "{}"}, "'metadata' names no func_name"),
        (
            "livecodebench",
            STDIN | {"public_test_cases": "[]", "private_test_cases": "[]"},
            "needs 'tests' or 'cases'",
        ),
    ],
)
def test_a_malformed_row_is_refused_by_its_place(tmp_path, name, row, message):
    with pytest.raises(DataError) as error:
        load_code(write(tmp_path / "rows.jsonl", row), name)
    assert message in str(error.value)
    assert "rows.jsonl" in str(error.value)


def test_an_unknown_shape_an_empty_file_and_an_id_used_twice_are_refused(tmp_path):
    path = write(tmp_path / "h.jsonl", HUMANEVAL, HUMANEVAL)
    with pytest.raises(SettingsError, match="humaneval, mbpp, livecodebench, got 'apps'"):
        load_code(path, "apps")
    with pytest.raises(DataError, match="'Own/0' was already used at"):
        load_code(path, "humaneval")
    with pytest.raises(DataError, match="holds no problems"):
        load_code(write(tmp_path / "empty.jsonl"), "humaneval")


def test_problems_whose_solution_fails_are_left_out_and_those_without_one_stay(tmp_path, verifier):
    broken = HUMANEVAL | {"task_id": "Own/1", "canonical_solution": "    return xs\n"}
    without = HUMANEVAL | {"task_id": "Own/2", "canonical_solution": ""}
    path = write(tmp_path / "h.jsonl", HUMANEVAL, broken, without)
    done = []
    found = solvable(load_code(path, "humaneval"), verifier, done.append)
    assert [problem.problem_id for problem in found.problems] == ["Own/0", "Own/2"]
    ((problem_id, why),) = found.dropped
    assert problem_id == "Own/1"
    assert why.startswith("its own solution is WRONG: test 1 of 1: assert candidate")
    assert sum(done) == 3


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
