"""An audit names what a reward function does wrong, and finds nothing in one that does right."""

import json
import re
from pathlib import Path

import pytest

from dph.cli import main
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.grading.audit import audit_function, audit_verifier
from dph.tasks.verifiers import make_verifier

FUNCTIONS = r"""
import itertools, random, re, time

def gsm8k(data_source, solution_str, ground_truth, extra_info=None):
    thoughtless = solution_str.rpartition("</think>")[2].replace("\r", "")
    if "<think>" in thoughtless:
        return {"score": 0.0}
    found = re.findall(r"#### (\S+)[ .]*$", thoughtless, re.MULTILINE)
    return {"score": float(found[-1:] == [ground_truth])}

def contains(completion, answer):
    return float(answer in completion[-1]["content"])

async def doubled(completions, solution, **kwargs):
    return [2.0 * (text.strip() == gold) for text, gold in zip(completions, solution)]

def shape(completions, **kwargs):
    return [float("<answer>" in text) for text in completions]

def chance(response, problem):
    return random.random()

calls = itertools.count()

def lazy(response, problem):
    time.sleep(0.12)
    return float(response.strip() == problem.answer["answer"])

def every_seventh(response, problem):
    return float(next(calls) % 7 != 3 and response.strip() == problem.answer["answer"])

def raising(response, problem):
    return float(int(response) == int(problem.answer["answer"]))

def sleeping(response, problem):
    time.sleep(60 * (len(response) > 60_000))
    return float(response.strip() == problem.answer["answer"])

def ranked(completions, answer, **kwargs):
    right = [text.strip() == gold for text, gold in zip(completions, answer)]
    return [value / len(completions) for value in right]
"""


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    """The module ``audited`` in the current directory."""
    (tmp_path / "audited.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)


NUMBERS = [Problem(problem_id=gold, prompt="?", answer={"answer": gold}) for gold in ("42", "-7")]


def kinds(audit):
    return {finding.kind for finding in audit.findings}


def test_nothing_is_found_in_a_function_that_reads_its_form_well():
    audit = audit_function("audited:gsm8k", problems=NUMBERS)
    assert (audit.signature, audit.reads) == ("verl", ("a line of GSM8K",))
    assert audit.findings == ()


@pytest.mark.parametrize(
    ("function", "signature", "found"),
    [
        (
            "contains",
            "verifiers",
            {
                "accepted: a wrong answer",
                "accepted: a guess at everything",
                "accepted: an answer that is taken back",
                "accepted: a thought that is cut off",
                "accepted: a thought and nothing after it",
            },
        ),
        (
            "doubled",
            "TRL",
            {
                "a reward outside [0, 1], which dph refuses",
                "refused, though right: a thought before it",
                "refused, though right: a draft in a thought before it",
                "refused, though right: a thought opened by the prompt",
            },
        ),
        ("shape", "TRL", {"no right answer gets more than a wrong one, in any form"}),
        ("chance", "dph", {"another reward for the same response: it is random"}),
        ("ranked", "TRL", {"another reward next to other completions"}),
    ],
)
def test_all_faults_of_a_function_are_named(function, signature, found):
    audit = audit_function(f"audited:{function}", problems=NUMBERS)
    assert audit.signature == signature
    faults = kinds(audit)
    assert found <= faults
    assert function == "ranked" or found == faults


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (
            "every_seventh",
            "another reward for the same response, after other calls: it keeps a state",
        ),
        ("raising", "it raised, or gave no number"),
    ],
)
def test_a_state_and_a_crash_are_named(function, found):
    assert found in kinds(audit_function(f"audited:{function}", problems=NUMBERS[:1]))


def test_a_call_that_hangs_is_killed_and_named():
    audit = audit_function("audited:sleeping", problems=NUMBERS[:1], timeout=1.2)
    assert "it took longer than 1 s" in kinds(audit)
    hung = next(f for f in audit.findings if f.kind == "it raised, or gave no number")
    assert all(len(probe.response) >= 100_000 for probe, _ in hung.examples)


def test_a_slow_function_is_named_and_the_audit_ends(monkeypatch):
    monkeypatch.setattr("dph.tasks.grading.audit._PATIENCE", 0.5)
    audit = audit_function("audited:lazy", problems=NUMBERS)
    left = len(NUMBERS) - 1
    assert f"it takes 0.1 s an answer: {left} problems were left out after 0 s" in kinds(audit)
    assert audit.calls < 300


def test_a_finding_counts_and_shows_its_cases():
    audit = audit_function("audited:contains", problems=NUMBERS[:1])
    near = next(f for f in audit.findings if f.kind == "accepted: a wrong answer")
    # 142, 420, -42 and 42.5 of 41, 142, 4, 420, -42 and 42.5 contain 42, in each of twelve forms.
    assert (near.count, near.of) == (4 * 12, 6 * 12)
    probe, reward = near.examples[0]
    assert (probe.gold, probe.response, reward.value) == ("42", "142", 1.0)


@pytest.mark.parametrize("name", ["number", "exact"])
def test_nothing_is_found_in_our_verifiers(name):
    with make_verifier(name, workers=1, timeout=5.0) as verifier:
        assert audit_verifier(verifier, problems=NUMBERS).findings == ()


@pytest.mark.slow
def test_nothing_is_found_in_the_verifier_of_mathematics():
    with make_verifier("math", workers=1, timeout=5.0) as verifier:
        audit = audit_verifier(verifier)
    assert (len(audit.reads), audit.findings) == (12, ())


def test_problems_without_a_gold_or_without_another_answer_are_refused():
    nameless = [Problem(problem_id="a", prompt="?", answer={"x": 1, "y": 2})]
    with pytest.raises(SettingsError, match="'a' has no gold: one of answer"):
        audit_function("audited:contains", problems=nameless)
    alone = [Problem(problem_id="a", prompt="?", answer={"answer": "a tree"})]
    with pytest.raises(SettingsError, match="two problems with different answers"):
        audit_function("audited:contains", problems=alone)


def test_the_command_ends_with_1_and_prints_the_findings(capsys):
    lines = [json.dumps({"problem_id": gold, "prompt": "?", "answer": gold}) for gold in "12"]
    Path("problems.jsonl").write_text("\n".join(lines))
    words = ["grade", "--audit", "audited:doubled", "--problems", "problems.jsonl"]
    assert main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["function"] == "audited:doubled"
    assert document["findings"][0]["examples"][0]["reward"] == 2.0
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "a reward outside [0, 1]" in out
    assert re.fullmatch(r"audit: 2/2 problems in .* calls, now again in another order\)\n", err)
