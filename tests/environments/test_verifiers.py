"""Tasksets of the real package `verifiers`: theirs in our engine, ours in theirs."""

import asyncio
import zlib
from pathlib import Path

import pytest

import dph
from dph import DataError, Outcome, Problem, SettingsError, make_verifier
from dph.cli import main
from dph.recipe import resolve_recipe
from dph.runs.answers import run_verifier
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.environments.tasksets import problem_taskset, taskset_class, taskset_problems
from dph.tasks.problems import load_problems
from graded_tasks import PROBLEMS, RIGHT, SUBJECTS, WRONG, grader
from scripted_policy import START, byte_tokenizer, call, make_draw
from tiny_models import build_model, build_tokenizer

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-environments")
reasoning_gym = pytest.importorskip("reasoning_gym")
from gym_taskset import questions  # noqa: E402 - it imports both

TESTS = Path(__file__).parents[1]
GYM_TASKS = (
    *("base_conversion", "basic_arithmetic", "calendar_arithmetic", "chain_sum", "count_bits"),
    *("family_relationships", "fraction_simplification", "gcd", "lcm", "leg_counting"),
    *("letter_counting", "number_sorting", "power_function", "prime_factorization"),
    *("simple_equations", "spell_backward", "word_sorting"),
)
"""With the tasksets of boxes and of our SQL, and a server of OpenEnv, 20 that keep the contract.
Inspect's own reader and scorer are tested where it is installed (tests/results/inspect)."""


def problems(package, count):
    return taskset_problems(package, count=count, directories=[TESTS])


def environment_of(package):
    settings = {"path": f"verifiers:{package}"}
    data = {"train": "t.jsonl", "modules": [str(TESTS)]}
    recipe = resolve_recipe(
        {"method": "grpo", "model": {"path": "m"}, "data": data, "environment": settings}
    )
    return run_verifier(recipe).environment


def verdicts(package, some, script):
    with environment_of(package) as environment:
        rollout = make_draw(byte_tokenizer(), environment, script)(some, samples=1, seed=0)
    return [graded.verdict for (graded,) in rollout.groups]


def test_reasoning_gym_through_verifiers_is_graded_by_its_own_scorer():
    made = reasoning_gym.create_dataset("chain_sum", seed=3, size=20, min_terms=2, max_terms=2)
    some = problems("gym_taskset", 4)
    assert [problem.prompt for problem in some] == [made[n]["question"] for n in range(4)]
    answers = {made[n]["question"]: made[n]["answer"] for n in range(3)}

    def script(prompt, _):
        return next((a for question, a in answers.items() if question in prompt), "no idea")

    found = verdicts("gym_taskset", some, script)
    assert [v.outcome for v in found] == [Outcome.CORRECT] * 3 + [Outcome.WRONG]


@pytest.mark.parametrize("task", GYM_TASKS)
def test_a_task_of_reasoning_gym_is_evaluated_as_a_taskset(task, tmp_path):
    text = f"from gym_taskset import taskset_of\n\nAsked = taskset_of({task!r})\n"
    (tmp_path / f"gym_{task}.py").write_text(text + "__all__ = ['Asked']\n")
    some = taskset_problems(f"gym_{task}", count=3, directories=[TESTS, tmp_path])
    entries = [questions(task)[place] for place in range(3)]
    assert [problem.prompt for problem in some] == [entry["question"] for entry in entries]
    for problem, entry in zip(some, entries, strict=True):
        assert worth(f"gym_{task}", problem, entry["answer"]) == 1.0
        assert worth(f"gym_{task}", problem, "-7") < 1.0


def worth(package, problem, said):
    """The reward of an answer by the class of a taskset, without its process."""
    acting = taskset_class(package)()

    async def act():
        await acting.reset(**problem.answer)
        return await acting.get_reward([{"role": "assistant", "content": said}])

    return asyncio.run(act())


def test_tools_share_their_state_with_the_rewards_and_are_described():
    some = problems("box_taskset", 3)
    assert some[1].prompt == (
        {"role": "system", "content": "Open boxes."},
        {"role": "user", "content": "What is in box 1?"},
    )

    def script(prompt, _):
        number = prompt.split("in box ")[1][0]
        told = prompt.split(f"{START}tool\n")[1:]
        if number == "2":
            return "thing 2"  # a guess
        if len(told) == (number == "1"):
            return call("boxes_open", box=number)
        return call("boxes_open", box="9") if not told else f"thing {number}"

    asked, twice, guessed = verdicts("box_taskset", some, script)
    assert asked.outcome is Outcome.CORRECT
    assert twice.reward == guessed.reward == 0.75
    with environment_of("box_taskset") as environment:
        [tool] = environment.tools
    assert tool["function"]["name"] == "boxes_open"
    assert tool["function"]["parameters"]["properties"]["box"] == {
        "type": "string",
        "description": "box",
    }


def test_a_recipe_trains_a_step_on_a_taskset(tmp_path, monkeypatch):
    monkeypatch.chdir(TESTS)
    out = tmp_path / "problems.jsonl"
    assert main(["tasks", "verifiers", "gym_taskset", "--out", str(out), "--count", "4"]) == 0
    assert len(load_problems(out)) == 4
    build_model().save_pretrained(tmp_path / "model")
    build_tokenizer().save_pretrained(tmp_path / "model")
    recipe = resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": str(tmp_path / "model"), "device": "cpu", "threads": 1},
            "data": {"train": str(out), "sets": {"same": str(out)}, "modules": [str(TESTS)]},
            "environment": {"path": "verifiers:gym_taskset", "tokens": 8},
            "sampling": {"max_tokens": 4},
            "train": {"steps": 1, "problems_per_step": 2, "samples_per_problem": 2},
            "evaluate": {"samples": 2},
        }
    )
    dph.run(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "step_000001").is_dir()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Odd(vf.Task): NEEDS_CONTAINER = True", "needs a container"),
        ("class Odd(vf.Task):\n    async def setup(self, trace, runtime): pass", "its own set-up"),
        ("class Odd(vf.Task):\n    @vf.stop\n    async def s(self, trace): pass", "the hook s"),
        ("class Odd(vf.Task):\n    @vf.reward\n    async def r(self, runtime): pass", "the hook r"),
        ("class Odd(vf.Task): pass\nclass E(vf.Env): pass", "its own Env"),
    ],
)
def test_what_needs_more_than_turns_and_tools_is_refused_by_name(tmp_path, text, message):
    name = f"odd_taskset_{zlib.crc32(text.encode())}"
    names = ["Set", "E"] if "E(vf.Env)" in text else ["Set"]
    kind = "class Set(vf.Taskset[Odd, vf.TasksetConfig]):\n    def load(self): return []"
    source = f"import verifiers.v1 as vf\n{text}\n{kind}\n__all__ = {names}\n"
    (tmp_path / f"{name}.py").write_text(source)
    with pytest.raises(SettingsError, match=message):
        taskset_problems(name, directories=[tmp_path])


def test_a_taskset_that_is_missing_endless_or_without_prompts_is_named(tmp_path):
    with pytest.raises(SettingsError, match="no taskset 'nowhere' of verifiers: ModuleNotFound"):
        taskset_problems("nowhere", directories=[tmp_path])
    with pytest.raises(SettingsError, match="'box_taskset' is endless: give --count N"):
        taskset_problems("box_taskset", directories=[TESTS])
    (tmp_path / "silent_taskset.py").write_text(
        "import verifiers.v1 as vf\n"
        "class Set(vf.Taskset[vf.Task, vf.TasksetConfig]):\n"
        "    def load(self): return [vf.Task(vf.TaskData())]\n"
        "__all__ = ['Set']\n"
    )
    with pytest.raises(DataError, match="task 0 of 'silent_taskset' has no prompt of text"):
        taskset_problems("silent_taskset", directories=[tmp_path])


def test_our_problems_are_a_taskset_that_our_verifier_grades():
    some = [
        Problem(problem_id="a", prompt="1 + 1?", answer={"answer": "2"}),
        Problem(problem_id="b", prompt=({"role": "user", "content": "?"},), answer={"answer": "3"}),
        Problem(problem_id="bad", prompt="?", answer={}),
    ]
    with make_verifier("exact") as verifier:
        taskset = problem_taskset(some, verifier)(vf.TasksetConfig(id="ours"))
        right, wrong = map(scored, taskset, ["2", "2"])
        *_, lacking = taskset
        with pytest.raises(vf.TaskError, match="'answer' in problem 'bad'"):
            scored(lacking, "2")
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert (right.info["verdict"], wrong.info["verdict"][:5]) == ("CORRECT", "WRONG")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_our_sql_maths_and_code_are_graded_in_a_taskset(subject, tmp_path):
    with grader(subject, tmp_path) as made:
        acts = isinstance(made, EnvironmentVerifier)
        if acts:
            with pytest.raises(SettingsError, match="runs tools in separate servers"):
                problem_taskset([PROBLEMS[subject]], made)
        taskset = problem_taskset([PROBLEMS[subject]], made.verifier if acts else made)
        [task] = taskset(vf.TasksetConfig(id="ours"))
        for turns, reward in ((RIGHT[subject], 1.0), (WRONG[subject], 0.0)):
            answer = turns[-1] if isinstance(turns[-1], str) else next(iter(turns[-1][1].values()))
            assert scored(task, answer).reward == reward


def scored(task, reply):
    trace = vf.Trace(
        task=vf.TraceTask(type="t", data=task.data), agent=vf.AgentInfo(config=vf.AgentConfig())
    )
    trace.nodes.append(vf.MessageNode(message=vf.UserMessage(content="?")))
    said = vf.AssistantMessage(content=reply)
    trace.nodes.append(vf.MessageNode(parent=0, message=said, sampled=True))
    asyncio.run(task.score(trace))
    return trace
