import hashlib
import os
import random
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.verifiers.math import verifier as pooled
from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
from shared_data import SOME_AND_ALL, shared_data

pytest.importorskip("math_verify")

VERIFIERS = (MathVerifier, MathQwenVerifier)
CASES = "math/scored_cases_examples.parquet"

SLOW_ATTACKS = {
    "tower": r"\boxed{9^{9^{9^9}}}",
    "factorials": r"\boxed{(((10!)!)!)!}",
    "product": r"\boxed{\prod_{n=1}^{10^9} n}",
}
ATTACKS = {
    "plain tower": "9**9**9**9",
    "factorial": r"\boxed{99999999!}",
    "braces": r"\boxed{" + "{" * 5000 + "1" + "}" * 5000 + "}",
    "parentheses": r"\boxed{" + "(" * 2000 + "1" + ")" * 2000 + "}",
    "fractions": r"\boxed{" + r"\frac{1}{" * 500 + "2" + "}" * 500 + "}",
    "roots": r"\boxed{\sqrt{" * 300,
    "digits": "9" * 1_000_000,
    "boxed digits": r"\boxed{" + "9" * 1_000_000 + "}",
    "decimals": r"\boxed{0." + "3" * 4000 + "}",
    "infinite number": r"\boxed{1e999999999}",
    "large power": r"\boxed{2^{100000000}}",
    "open boxes": r"\boxed{" * 5000,
    "many boxes": r"\boxed{1} and " * 20_000,
    "answers": "answer " * 30_000,
    "dollars": "$" * 50_000,
    "equals": "answer is " + "=" * 100_000,
    "backslashes": "\\" * 100_000,
    "blanks": r"\boxed{" + " " * 100_000 + "}",
    "units": "he answer is " + "1 cm " * 20_000,
    "code": r"\boxed{__import__('os').system('touch attacked')}",
    "bare code": "the answer is __import__('os').system('touch attacked')",
    "matrix": r"\boxed{\begin{pmatrix}" + "1&" * 1500 + r"\end{pmatrix}}",
    "binomial": r"\boxed{\binom{10^{9}}{5\cdot 10^{8}}}",
    "not text": "\x00\ud800\udfff",
    "ten megabytes": "{" * 10_000_000,
    "a million boxes": r"\boxed{7}" * 1_000_000,
    "digits of other scripts": "\\boxed{\u0665\uff15\u2075\u2464}",
    "invisible characters": "\\boxed{\u200b\ufeff\u202e}",
    "nested environments": r"\boxed{" + r"\begin{pmatrix}" * 200 + r"\end{pmatrix}" * 200 + "}",
    "input": r"\boxed{\input{/etc/passwd}\write18{touch attacked}}",
    "subclasses": r"\boxed{().__class__.__bases__[0].__subclasses__()}",
    "not a number": "the answer is NaN",
    "infinity": r"\boxed{-inf}",
    "factorials of factorials": r"\boxed{5" + "!" * 200 + "}",
    "number words": "the answer is " + "one hundred " * 200_000,
    "nested texts": r"\boxed{" + r"\text{" * 49 + "5" + "}" * 49 + "}",
    "percents": r"\boxed{" + r"\%" * 2000 + "}",
    "many and": r"\boxed{1}" + " and " * 100_000 + r"\boxed{2}",
}
QUICK = (
    *("braces", "decimals", "code", "bare code", "not text", "subclasses", "infinity", "percents"),
)


def verdicts(verifier, pairs):
    return [
        judged.verdict.outcome for judged in verifier.judge([MathPair(*pair) for pair in pairs])
    ]


@pytest.fixture(scope="module", params=VERIFIERS, ids=lambda kind: kind.name)
def verifier(request):
    with closing(request.param(workers=2, timeout=3.0)) as made:
        yield made


def resident_bytes():
    """Of this process, which keeps what its workers send."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def problem(gold):
    return Problem(problem_id="p", prompt="?", answer={"answer": gold})


def test_problems_are_graded_by_their_answer_and_one_without_is_an_error_that_names_it(verifier):
    graded = verifier.grade([problem("5"), problem(5), problem("x")], [r"\boxed{5}"] * 3)
    assert [verdict.reward for verdict in graded] == [1.0, 1.0, 0.0]
    with pytest.raises(DataError, match="needs 'answer' in problem 'p'"):
        verifier.grade([Problem(problem_id="p", prompt="?", answer={})], ["5"])


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(pooled, "find_spec", lambda name: None if "verify" in name else name)
    with pytest.raises(SettingsError, match=r"math_verify: pip install 'dph-rl\[math\]'"):
        MathVerifier()


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param([*ATTACKS, "tower"], marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_attacks_change_no_other_verdict_and_none_is_right(verifier, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = [(rf"\frac{{{n}}}{{7}}", rf"\boxed{{\frac{{{2 * n}}}{{14}}}}") for n in range(1, 101)]
    attacks = [("x^2 + 7", (ATTACKS | SLOW_ATTACKS)[name]) for name in names]
    mixed = [*good, *attacks]
    random.Random(0).shuffle(mixed)
    before = resident_bytes()
    outcomes = dict(zip(mixed, verdicts(verifier, mixed), strict=True))
    assert resident_bytes() - before < 200_000_000
    assert all(outcomes[pair] == Outcome.CORRECT for pair in good)
    assert Outcome.CORRECT not in [outcomes[pair] for pair in attacks]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "names", [["tower"], pytest.param([*SLOW_ATTACKS], marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_what_hangs_is_killed_and_says_so(verifier, names):
    outcomes = verdicts(verifier, [("x^2 + 7", SLOW_ATTACKS[name]) for name in names])
    assert set(outcomes) == {Outcome.TIMED_OUT}


def cases(columns):
    return pq.read_table(shared_data(CASES), columns=["gold", "response", *columns]).to_pylist()


@SOME_AND_ALL
def test_math_agrees_with_the_labels_and_never_accepts_a_near_miss(every):
    rows = [row for row in cases(["label", "variant", "group"]) if row["group"] == "gold_variants"]
    rows = rows[::every]
    with closing(MathVerifier(workers=2)) as math:
        outcomes = verdicts(math, [(row["gold"], row["response"]) for row in rows])
    graded = [
        (row, outcome == Outcome.CORRECT) for row, outcome in zip(rows, outcomes, strict=True)
    ]
    labelled = [row["label"] == right for row, right in graded if row["label"] is not None]
    assert sum(labelled) >= 0.99 * len(labelled)
    near = {"times100", "plus1", "negated", "inverted", "wrong_frac", "swapped"}
    assert not [row for row, right in graded if right and row["variant"] in near]


@SOME_AND_ALL
def test_math_qwen_agrees_with_the_tool(every):
    rows = cases(["group", "qwen_tool"])[::every]
    with closing(MathQwenVerifier(workers=2)) as qwen:
        outcomes = verdicts(qwen, [(row["gold"], row["response"]) for row in rows])
    missed = [
        row["group"]
        for row, outcome in zip(rows, outcomes, strict=True)
        if row["qwen_tool"] != (outcome == Outcome.CORRECT)
    ]
    assert {
        group for group in missed if group not in ("gold_variants", "mathverify_tests")
    } == set()
    assert len(missed) <= max(every > 1, 0.002 * len(rows))


# Each costs a parse by sympy: `make fuzz` tries them all.
GENERATED = 10_000 if os.environ.get("DPH_FUZZ") == "full" else 500
FEW = 100


def fuzzed(rng):
    """A gold that nothing equals, and a response of any characters."""
    letters = r"\{}$^_()[],.=+-*/!%&~ 0123456789xyie" + "\n\u221e\u00bd"
    pieces = [r"\frac", r"\sqrt", r"\boxed{", "and", "answer is ", r"\text{", r"\\"]
    text = "".join(
        rng.choice([*pieces, r"\begin{pmatrix}"]) if rng.random() < 0.15 else rng.choice(letters)
        for _ in range(rng.randint(0, 40))
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"q_{{{int(digest[:6], 16) + 10**7}}}", rf"\boxed{{{text}}}"


@pytest.mark.parametrize(
    ("seed", "count"),
    [(2, FEW), *(pytest.param(seed, GENERATED, marks=pytest.mark.slow) for seed in range(2))],
)
def test_generated_inputs_neither_crash_nor_pass(verifier, seed, count):
    rng = random.Random(seed)
    outcomes = set(verdicts(verifier, [fuzzed(rng) for _ in range(count)]))
    assert not outcomes & {Outcome.CRASHED, Outcome.CORRECT}


@SOME_AND_ALL
def test_every_wrong_answer_has_a_reason_that_names_it_and_the_gold(every):
    rows = pq.read_table(shared_data(CASES)).to_pylist()[:300:every]
    pairs = [MathPair(row["gold"], row["response"]) for row in rows]
    with MathVerifier(workers=2, timeout=20.0) as verifier:
        verdicts = [judged.verdict for judged in verifier.judge(pairs)]
    wrong = [verdict.reason for verdict in verdicts if verdict.outcome is Outcome.WRONG]
    assert len(wrong) > 50 / every
    assert all(" is not " in reason and "the answer'" not in reason for reason in wrong)
