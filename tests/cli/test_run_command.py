"""``dph run --model``: a recipe from a command, its choices, and the same command again."""

import json
import shutil
import tomllib

import pytest

from dph.errors import SettingsError
from dph.records import UNGRADED
from dph.results.read.run_results import RunResults
from dph.runs.command import FILE, _rate, _sizes, asked_for, recipe_of_command
from dph.runs.memory import Device
from dph.tasks.problems import load_problems
from hub_fixtures import *  # noqa: F403
from shared_data import shared_data
from zoo import write_bird, write_spider

SMALL = ("train.steps=1", "train.problems_per_step=2", "presample.samples=2", "evaluate.samples=2")


def command(example, out, *more):
    """The words of a command on the example's model and problems."""
    task = example.parent
    words = ["run", "--model", task / "model", "--train", task / "problems.jsonl"]
    words += ["--verifier", "exact", "--method", "grpo", "--out", out, *more]
    for setting in (*SMALL, "evaluate.k=[1, 2]"):
        words += ["--set", setting]
    return words


@pytest.fixture
def many(example):
    """The example with sixteen problems, of which eight can be held out."""
    file = example.parent / "problems.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    more = [{**row, "problem_id": f"again-{row['problem_id']}"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more][:16]))
    return example


def test_a_command_trains_and_compares_and_leaves_its_recipe(dph, many, tmp_path):
    out = tmp_path / "run"
    code, said, err = dph(*command(many, out))
    assert code == 0, err
    assert "train.checkpoint_every = 5: a kill costs at most these steps" in err
    assert "sampling.max_tokens = 16: half of the model's context, 32" in err
    assert f"run: {out}" in said
    table = tomllib.loads((out / FILE).read_text())
    assert (table["method"], table["train"]["steps"]) == ("grpo", 1)
    rows = {
        name: [json.loads(line)["problem_id"] for line in (out / name).read_text().splitlines()]
        for name in ("train.jsonl", "test.jsonl")
    }
    assert (len(rows["train.jsonl"]), len(rows["test.jsonl"])) == (8, 8)
    assert not {*rows["train.jsonl"]} & {*rows["test.jsonl"]}
    weights = (out / FILE).stat().st_mtime_ns
    code, again, err = dph(*command(many, out))
    assert (code, again) == (0, said)
    assert (out / FILE).stat().st_mtime_ns == weights
    assert "checkpoint_every" not in err
    assert dph("compare", out)[0] == 0


def test_problems_of_the_hub_with_other_columns_are_held_out_and_the_run_keeps_its_commit(
    dph, refusal, many, tmp_path, hub
):
    rows = [json.loads(line) for line in (many.parent / "problems.jsonl").read_text().splitlines()]
    names = {"prompt": "question", "answer": "gold"}
    rows = [{names[key]: row[key] for key in names} for row in rows]
    data = {"data/train.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}
    commit = hub.push("org/words", data, kind="datasets")
    out, given = tmp_path / "run", ("data.columns.prompt=question", "data.columns.answer=gold")
    words = command(many, out, *(word for setting in given for word in ("--set", setting)))
    words[words.index("--train") + 1] = "hf://datasets/org/words/data/train.jsonl"
    code, said, err = dph(*words)
    assert code == 0, err
    first = (out / FILE).read_text().partition("\n")[0]
    assert first.endswith(f"hf://datasets/org/words@{commit}/data/train.jsonl")
    parts = [
        [json.loads(line) for line in (out / name).read_text().splitlines()]
        for name in ("train.jsonl", "test.jsonl")
    ]
    assert [len(part) for part in parts] == [8, 8]
    held = sorted((row for part in parts for row in part), key=lambda row: int(row["problem_id"]))
    assert [{key: row[key] for key in names.values()} for row in held] == rows
    hub.push("org/words", {"data/train.jsonl": b"{}\n"}, kind="datasets")
    assert dph(*words)[:2] == (0, said)
    words[words.index("--train") + 1] = "hf://datasets/org/words@main/data/train.jsonl"
    assert "there is no column 'question'" in refusal(*words)


def test_a_command_with_its_own_test_problems_continues_too(dph, example, tmp_path):
    words = command(example, tmp_path / "run", "--test", example.parent / "problems.jsonl")
    code, said, err = dph(*words)
    assert code == 0, err
    assert dph(*words)[:2] == (0, said)


def test_another_command_and_other_problems_are_refused_in_the_same_directory(
    dph, refusal, many, tmp_path
):
    out = tmp_path / "run"
    shutil.copy(many.parent / "problems.jsonl", tmp_path / "others.jsonl")
    assert dph(*command(many, out))[0] == 0
    words = command(many, out)
    words[words.index("grpo")] = "dapo"
    assert "method is 'grpo' there and 'dapo' now" in refusal(*words)
    file = many.parent / "problems.jsonl"
    file.write_text(file.read_text().replace("again-", "once-more-"))
    assert "problems.jsonl changed since" in refusal(*command(many, out))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--train", "x.jsonl"), "--model needs --verifier NAME, or --task (gsm8k, "),
        (("--verifier", "exact"), "--model needs --train FILE"),
        (("--task", "mmlu"), "--task takes gsm8k, math500, spider, bird, got 'mmlu'"),
        (("--task", "gsm8k", "--train", "x.jsonl"), "--task gsm8k brings its problems"),
        (("--task", "gsm8k", "--data", "x"), "--data goes with --task spider or bird"),
        (("--task", "spider"), "--task spider needs --data DIR"),
        (("--task", "spider", "--data", "x"), "there is no directory"),
        (("--train", "x.jsonl", "--verifier", "exact"), "x.jsonl"),
    ],
)
def test_a_command_that_lacks_something_writes_nothing(refusal, example, tmp_path, words, said):
    out = tmp_path / "run"
    assert said in refusal("run", "--model", example.parent / "model", "--out", out, *words)
    assert not out.exists()


def test_a_recipe_and_a_model_are_one_too_many_and_none_is_one_too_few(refusal, example):
    assert "--model, --method and a recipe: give one or the other" in refusal(
        "run", example, "--model", "m", "--method", "grpo"
    )
    assert "give a recipe, or --model with --train and --verifier" in refusal("run")


def test_too_few_problems_to_hold_some_out_are_refused(refusal, example, tmp_path):
    assert "has 12 problems, too few to hold 8 out" in refusal(*command(example, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.fixture
def long_prompts(example):
    """The example's model with room for a prompt with a schema, and no chat template."""
    file = example.parent / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "max_position_embeddings": 2048}))
    return example


def sql_command(example, task, data, out):
    words = ["run", "--model", example.parent / "model", "--task", task, "--data", data]
    words += ["--method", "grpo", "--out", out, "--set", "evaluate.k=[1, 2]"]
    return [
        *words,
        *(word for setting in (*SMALL, "sampling.max_tokens=4") for word in ("--set", setting)),
    ]


def test_spider_is_trained_on_from_its_published_directory(dph, refusal, long_prompts, tmp_path):
    data = write_spider(tmp_path / "spider")
    rows = json.loads((data / "train_spider.json").read_text())
    (data / "train_spider.json").write_text(json.dumps(rows * 3))
    out = tmp_path / "run"
    words = sql_command(long_prompts, "spider", data, out)
    code, said, err = dph(*words)
    assert code == 0, err
    left = "3: gold no rows; 3: gold only NULL or 0; 1: gold does not run"
    assert f"data.train = train.jsonl: 3 of 10 questions; {left}" in err
    table = tomllib.loads((out / FILE).read_text())["data"]
    assert (table["verifier"], table["sql_rule"]) == ("sql", "spider")
    assert table["databases"] == str(data)
    problem = load_problems(out / "dev.jsonl")[0]
    assert (data / problem.answer["database"]).is_file()
    outcomes = {row["outcome"] for row in RunResults(out).answers().to_pylist()}
    assert outcomes
    assert not outcomes & UNGRADED
    (data / "train_spider.json").unlink()  # what the run began with lies in it
    assert dph(*words)[:2] == (0, said)
    words[words.index(data)] = tmp_path
    assert "data.databases is" in refusal(*words)


def test_bird_needs_the_databases_of_both_of_its_parts(refusal, long_prompts, tmp_path):
    data = write_bird(tmp_path / "bird")
    (data / "train.json").write_text((data / "dev.json").read_text())
    words = sql_command(long_prompts, "bird", data, tmp_path / "run")
    assert "has no databases of train" in refusal(*words)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_shared_part_of_spider_gives_a_recipe_with_all_its_problems(long_prompts, tmp_path):
    data = str(shared_data("spider"))
    asked = {"model": str(long_prompts.parent / "model"), "method": "dph_f", "task": "spider"}
    asked = asked_for(**asked, train=None, test=None, verifier=None, data=data)
    chosen = recipe_of_command(asked, tmp_path / "run", overrides=["sampling.max_tokens=4"])
    assert (len(chosen.files["train.jsonl"]), len(chosen.files["dev.jsonl"])) == (5286, 949)
    assert not (tmp_path / "run").exists()


def test_a_model_with_a_chat_template_is_asked_by_it_and_told_to_box(many, monkeypatch, tmp_path):
    (many.parent / "model" / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    chosen = choices_on(many, tmp_path / "run", monkeypatch, mib=4000, verifier="math")
    assert chosen.table["data"]["chat"] is True
    assert "boxed" in chosen.table["data"]["system_prompt"]
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}x"
    (many.parent / "model" / "chat_template.jinja").write_text(refuses)
    chosen = choices_on(many, tmp_path / "other", monkeypatch, mib=4000, verifier="math")
    assert "system_prompt" not in chosen.table["data"]


def choices_on(example, out, monkeypatch, *, mib, verifier="exact"):
    """Keys that are chosen on a GPU of this memory, in the order in which they are tried."""
    monkeypatch.setattr("dph.runs.check_model.LIBRARIES", 0.0)
    device = Device(name="a GPU", cuda=True, memory=mib * 2.0**20)
    monkeypatch.setattr("dph.runs.command.device_at_hand", lambda _: device)
    task = {"model": str(example.parent / "model"), "train": str(example.parent / "problems.jsonl")}
    asked = asked_for(**task, method="grpo", test=None, verifier=verifier, task=None)
    return recipe_of_command(asked, out, overrides=SMALL)


def test_all_weights_are_trained_where_the_memory_holds_them(many, monkeypatch, tmp_path):
    chosen = choices_on(many, tmp_path / "run", monkeypatch, mib=4000)
    settings = {choice.key: choice.value for choice in chosen.choices}
    assert settings["train.learning_rate"] == 2e-4
    assert settings["evaluate.k"] == [1, 2]
    assert "model.adapter" not in settings
    assert "steps" not in settings


@pytest.mark.parametrize(
    ("parameters", "adapts", "rate"),
    [
        (340_000, False, 2e-4),
        (135_000_000, False, 5e-6),
        (1_700_000_000, False, 1e-6),
        (None, False, 1e-6),
        (135_000_000, True, 1e-5),
    ],
)
def test_the_rate_is_one_that_moves_a_model_of_this_size(parameters, adapts, rate):
    chosen = _rate(parameters, adapts=adapts)
    assert chosen.value == rate
    assert chosen.reason


def test_a_step_of_one_problem_is_one_mini_batch():
    chosen = {choice.key: choice.value for choice in _sizes(None, None, 6)}
    assert (chosen["train.problems_per_step"], chosen["train.minibatches"]) == (1, 1)


def test_a_device_that_holds_no_way_of_training_is_refused_with_the_sizes(
    many, monkeypatch, tmp_path
):
    with pytest.raises(SettingsError, match=r"takes about .* GiB, and a GPU has 0\.0"):
        choices_on(many, tmp_path / "run", monkeypatch, mib=0.01)


def test_an_adapter_is_trained_where_all_weights_are_too_large(many, monkeypatch, tmp_path):
    def check_memory(recipe, _model, _named, findings, **_):
        findings.errors += ["it takes 9 GiB: lower it"] * (recipe.model.adapter is None)

    monkeypatch.setattr("dph.runs.command.check_memory", check_memory)
    chosen = choices_on(many, tmp_path / "run", monkeypatch, mib=4000)
    reasons = {choice.key: choice.reason for choice in chosen.choices}
    assert reasons["model.adapter"] == "it takes 9 GiB"
    assert chosen.table["train"]["learning_rate"] == 1e-5
