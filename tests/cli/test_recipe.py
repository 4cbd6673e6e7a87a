"""``dph recipe`` opens what a recipe names and says all that is wrong with it at once."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dph._base.provenance import install_command
from dph.cli.recipe import stages
from dph.model.loading import load_tokenizer
from dph.recipe import resolve_recipe
from dph.recipe.keys import known_keys

RECIPES = sorted((Path(__file__).parents[2] / "recipes").rglob("*.toml"))


@pytest.mark.usefixtures("extras_installed")
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_of_the_repository_pass_the_check(dph, path):
    code, out, _ = dph("recipe", "check", path)
    assert code == 0
    assert "valid, method dph_f" in out


def test_the_check_says_what_would_run_and_what_is_not_there(document, example):
    content = document("recipe", "check", example, settings=["model.path=gone"])
    assert content["valid"]
    assert [stage.split(":")[0] for stage in content["stages"]] == [
        "pre-sample",
        "train",
        "evaluate",
    ]
    assert content["notes"] == ["model.path does not exist: gone"]


def test_a_method_without_rehearsal_is_not_presampled(dph, example):
    out = dph("recipe", "check", example, "--set", "method=rkl", "--set", "data.sets={}")[1]
    assert "pre-sample:" not in out
    assert "KL penalty 0.01 (unbiased)" in out
    assert "evaluate: nothing, because [data.sets] names no set" in out


def test_without_a_recipe_every_key_is_shown(document):
    out = document("recipe", "show")
    assert list(out) == list(known_keys())
    assert out["model.path"] == {
        "meaning": "directory of a saved transformers model and its tokenizer, or a model of "
        "the Hub as org/name",
        "required": True,
    }
    assert out["train.betas"]["default"] == [0.9, 0.95]


def test_show_marks_what_differs_from_the_default(dph, example):
    code, out, _ = dph("recipe", "show", example, "--set", "train.steps=9")
    lines = out.splitlines()
    assert code == 0
    assert "* train.steps = 9  (default 100)" in lines
    assert "  train.epochs = 1" in lines
    assert "* objective.anchors.rehearsal.weight = 0.01  (default 0.0)" in lines
    assert any(line.startswith("* data.sets.train.path = ") for line in lines)


def test_an_override_needs_a_recipe(refusal):
    assert "--set needs a recipe" in refusal("recipe", "show", "--set", "train.steps=9")


def test_the_recipes_of_the_package_are_listed_and_copied(dph, document, refusal, tmp_path):
    code, out, _ = dph("recipe", "list")
    assert code == 0
    assert "example-own-task/recipe: Your own task: " in out
    assert document("recipe", "list")["paper-qwen2.5-math-7b"]
    copy = tmp_path / "task"
    code, out, _ = dph("recipe", "copy", "example-own-task", "--out", copy)
    assert (code, out) == (0, f"recipe: {copy / 'recipe.toml'}\n")
    assert dph("recipe", "check", copy / "recipe.toml")[0] == 0
    assert "already exists" in refusal("recipe", "copy", "example-own-task", "--out", copy)
    again = dph("recipe", "copy", "paper-qwen2.5-math-7b", "--out", tmp_path / "a.toml", "--json")[
        1
    ]
    assert json.loads(again) == {"recipes": [str(tmp_path / "a.toml")]}


def test_the_settings_of_another_kind_of_recipe_are_not_taken_for_those_of_a_run(refusal, tmp_path):
    (tmp_path / "base.toml").write_text('kind = "base"\n')
    assert 'base.toml has kind = "base": it is a recipe of dph-corpus' in refusal(
        "recipe", "show", tmp_path / "base.toml"
    )


MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def test_an_advantage_other_than_grpos_is_told_and_what_needs_a_pool_makes_one():
    (training, *_) = stages(resolve_recipe({**MINIMAL, "method": "ucpo"}))
    assert "x 8 samples, advantage ucpo (0.2, std), 2 mini-batches" in training
    assert "advantage" not in stages(resolve_recipe({**MINIMAL, "method": "grpo"}))[0]
    presampling, training, *_ = stages(resolve_recipe({**MINIMAL, "method": "dph_f"}))
    assert presampling.startswith("pre-sample")
    assert "+ 32 rehearsal samples (forward_kl, eta 0.01)" in training


CONTEXT = 32


def flags(overrides):
    return [word for override in overrides for word in ("--set", override)]


@pytest.fixture
def passed(dph):
    """Check a recipe in which nothing is wrong, and return what is said of it."""

    def check(path, *overrides):
        code, out, err = dph("recipe", "check", path, *flags(overrides), "--json")
        content = json.loads(out)
        assert (code, content["errors"]) == (0, []), err
        return content

    return check


@pytest.fixture
def errors(dph):
    """Check a recipe and return what is wrong with it, a message each."""

    def check(path, *overrides):
        words = flags(overrides)
        code, out, err = dph("recipe", "check", path, *words)
        assert (code, out) == (2, "")
        lines = err.splitlines()
        assert all(line.startswith("dph: error: ") for line in lines)
        code, out, _ = dph("recipe", "check", path, *words, "--json")
        content = json.loads(out)
        assert (code, content["valid"]) == (2, False)
        assert [line.removeprefix("dph: error: ") for line in lines] == [
            " ".join(message.split()) for message in content["errors"]
        ]
        return content["errors"]

    return check


def rows(path, *changed):
    path.write_text("".join(json.dumps(row) + "\n" for row in changed))


def row(number, **changes):
    return {"problem_id": f"p{number}", "prompt": "Write the word", "answer": "x"} | changes


def test_all_that_is_there_is_opened_but_the_weights(passed, example, monkeypatch):
    monkeypatch.setattr("dph.model.policies.load_model", lambda *_, **__: pytest.fail("loaded"))
    content = passed(example)
    assert content["notes"] == []
    assert content["unchecked"] == ["the weights and the device: only a run loads them"]


def test_pools_and_modules_of_own_terms_are_looked_for(errors, passed, example):
    (example.parent / "relative.py").write_text("raise RuntimeError('needs torch')\n")
    (example.parent / "empty").mkdir()
    words = (
        "objective.advantage.kind=relative:relative",
        "objective.anchors.old.divergence=forward_kl",
        "objective.anchors.old.weight=0.1",
        f"objective.anchors.old.samples=pool:{example.parent / 'elsewhere'}",
    )
    content = passed(example, *words)
    assert [n for n in content["notes"] if "objective.anchors.old.samples does not exist" in n]
    assert "the values that your terms compute: only a run imports them" in content["unchecked"]
    found = errors(
        example,
        *words[1:3],
        f"objective.anchors.old.samples=pool:{example.parent / 'empty'}",
        "objective.advantage.kind=nowhere_at_all:relative",
    )
    assert [e.partition(":")[0] for e in found] == [
        "objective.anchors.old.samples",
        "objective.advantage.kind",
    ]


def test_every_error_is_told_at_once(errors, example):
    (example.parent / "verifier.py").write_text("def grade(response, problem):\n    return 7\n")
    rows(example.parent / "dev.jsonl", row(1), row(1))
    (example.parent / "model" / "tokenizer.json").write_text("{")
    found = errors(
        example,
        "data.sets.dev=" + str(example.parent / "dev.jsonl"),
        "data.styles=no_such_module_y:f",
        "train.problems_per_step=13",
    )
    text = "\n".join(found)
    assert len(found) == 5, found
    assert "data.sets.dev: " in text
    assert "was used before" in text
    assert "model.path: cannot load a tokenizer from" in text
    assert "it returned 7" in text
    assert "no_such_module_y" in text
    assert "train.problems_per_step = 13, but data.train holds only 12" in text


def test_every_malformed_row_of_a_file_is_told_at_once(errors, example):
    nameless = {"prompt": "x", "answer": "1"}
    rows(example.parent / "bad.jsonl", row(1), row(1), nameless, row(2, prompt=""), *6 * [nameless])
    found = errors(example, "data.sets={}", f"data.train={example.parent / 'bad.jsonl'}")
    assert len(found) == 6, found
    assert all(message.startswith("data.train: ") for message in found)
    assert "line 2: problem_id 'p1' was used before" in found[0]
    assert "line 3: problem_id must be" in found[1]
    assert "line 4: prompt must" in found[2]
    assert found[-1].endswith("bad.jsonl: 4 further rows cannot be used")


def test_an_unknown_verifier_and_the_nearest_one(errors, example):
    [message] = errors(example, "data.verifier=sqll")
    assert message.startswith("data.verifier: there is no verifier 'sqll'; did you mean 'sql'?")
    [message] = errors(example, "data.sets.train.verifier=nmber")
    assert "data.sets.train.verifier: " in message
    assert "did you mean 'number'?" in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def mark(response, problem):\n    return 1\n", "has no 'grade'"),
        ("import no_such_module_x\n", "no_such_module_x"),
        ("def grade(response, problem):\n    return problem.answer['gold']\n", "KeyError"),
        (
            "def grade(response, problem):\n"
            "    if response != 'I do not know.':\n        return 1\n",  # and no last return
            "'verifier:grade' cannot grade the answer 'I do not know.' to problem",
        ),
        (
            "seen = []\n"
            "def grade(response, problem):\n    seen.append(1)\n    return len(seen) > 2\n",
            "identical answers different verdicts",
        ),
    ],
)
def test_a_verifier_that_gives_no_verdict(errors, example, body, message):
    (example.parent / "verifier.py").write_text(body)
    [found] = errors(example)
    assert found.startswith("data.verifier: ")
    assert message in found


def test_golds_that_cannot_be_graded(errors, passed, example):
    numbers = example.parent / "numbers.jsonl"
    rows(numbers, row(1), row(2))
    overrides = ("data.verifier=number", f"data.train={numbers}", "data.sets={}")
    few = ("train.problems_per_step=1", "train.minibatches=1")
    [message] = errors(example, *overrides, *few)
    assert "the first 2 problems cannot be graded" in message
    rows(numbers, row(1), row(2, answer="2"))
    [note] = passed(example, *overrides, *few)["notes"]
    assert note.startswith("1 of 2 rows cannot be graded: problem 'p1'")


def test_databases_of_problems_are_looked_at_each(errors, passed, example):
    [message] = errors(example, f"data.databases={example}")
    assert message == f"data.databases is not a directory: {example}"
    directory = example.parent / "databases"
    directory.mkdir()
    with closing(sqlite3.connect(directory / "a.sqlite")) as connection:
        connection.executescript("CREATE TABLE t (x INT); INSERT INTO t VALUES (1);")
    (directory / "b.sqlite").write_text("no database")
    sql = [row(n, gold_sql="SELECT x FROM t", database=f"{n}.sqlite") for n in "abc"]
    rows(example.parent / "sql.jsonl", *sql)
    overrides = ["data.verifier=sql", f"data.databases={directory}", "data.sets={}"]
    overrides.append(f"data.train={example.parent / 'sql.jsonl'}")
    [message] = errors(example, *overrides)
    assert "data.train: 2 of 3 databases are missing or not SQLite files" in message
    assert message.endswith("b.sqlite")
    rows(example.parent / "sql.jsonl", sql[0], row("d", gold_sql="SELECT 2", database="a.sqlite"))
    passed(example, *overrides)


def test_prompts_that_leave_no_room(errors, example):
    [train, dev] = errors(example, "sampling.max_tokens=30")
    assert train.startswith("data.train: problem 'sum-")
    assert (
        f"a prompt of 7 tokens and max_tokens = 30 exceed the model's context of {CONTEXT}" in dev
    )
    assert "(12 such prompts)" in dev
    [alone] = errors(example, "evaluate.max_tokens=40")
    assert "40 tokens of an answer" in alone


def test_what_the_model_and_its_tokenizer_say(errors, passed, example):
    directory = example.parent / "model"
    added = load_tokenizer(directory)
    added.add_tokens(["<image>"])  # which no prompt has
    added.save_pretrained(directory)
    passed(example)
    config = json.loads((directory / "config.json").read_text())
    tokenizer = json.loads((directory / "tokenizer_config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    [message] = errors(example)
    assert "they do not match" in message
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"eos_token": None}))
    [message] = errors(example)
    assert "has no eos token" in message
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    [message] = errors(example, "data.chat=true")
    assert "has no chat template" in message
    [message] = errors(example, 'sampling.stop=["two words"]')
    assert "a stop string must be a single token" in message
    [message] = errors(example, "data.system_prompt=Hello")
    assert "needs chat = true" in message
    (directory / "model.safetensors").unlink()
    assert "holds no weights" in errors(example)[0]
    (directory / "config.json").write_text("{}")
    assert "cannot load a causal model" in errors(example)[0]
    (directory / "config.json").unlink()
    assert "has no config.json" in errors(example)[0]


def test_what_cannot_be_looked_at_is_said(dph, passed, example):
    (example.parent / "problems.jsonl").unlink()
    code, out, _ = dph("recipe", "check", example, "--set", "sampling.engine=vllm")
    assert code == 0
    assert "note: data.train does not exist" in out
    assert "not checked: data.verifier on a row: there is no row to read" in out
    assert "not checked: the installation of vLLM" in out
    shutil.rmtree(example.parent / "model")
    [said] = [one for one in passed(example)["unchecked"] if one.startswith("the tokenizer")]
    assert "the lengths of prompts: there is no model" in said


TEMPLATE = (
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ ' word' * (1 if enable_thinking is false else 4) }}"
    "{% endif %}"
)


def test_chats_are_measured_in_their_template(errors, dph, example):
    """The template adds four words where the recipe does not say that it adds one."""
    (example.parent / "model" / "chat_template.jinja").write_text(TEMPLATE)
    chats = [
        row(n, prompt=[{"role": "user", "content": ("word " * n).strip()}]) for n in (8, 20, 21)
    ]
    rows(example.parent / "problems.jsonl", *chats)
    few = ["train.problems_per_step=2", "sampling.max_tokens=8", "data.sets={}"]
    [message] = errors(example, *few)
    assert "problem 'p21': a prompt of 25 tokens and max_tokens = 8 exceed the model's" in message
    words = flags([*few, "data.template.enable_thinking=false"])
    code, out, err = dph("recipe", "check", example, *words)
    assert (code, err) == (0, "")
    assert "chat template" not in out
    [message] = errors(example, *few, "data.template.think=false")
    assert "data.template.think: the chat template reads no such variable" in message


def test_several_templates_are_one_by_default_and_damaged_ones_are_told(errors, passed, example):
    config = example.parent / "model" / "tokenizer_config.json"
    plain = json.loads(config.read_text())
    several = [{"name": "default", "template": TEMPLATE}, {"name": "rag", "template": "x" * 90}]
    config.write_text(json.dumps(plain | {"chat_template": several}))
    passed(example)
    [message] = errors(example, "data.template.enable_thinking=false")
    assert "several chat templates" in message
    config.write_text(json.dumps(plain | {"chat_template": [{"template": TEMPLATE}]}))
    [message] = errors(example)
    assert "cannot load a tokenizer from" in message


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for", "the chat template refuses the prompt"),
        ("{{ raise_exception('no user') }}", "data.train: problem 'p0': the chat template refuses"),
        ("{{ 1 + 'a' }}", "data.train: problem 'p0': the chat template refuses"),
    ],
)
def test_a_template_that_refuses_is_told(errors, example, template, said):
    (example.parent / "model" / "chat_template.jinja").write_text(template)
    chats = [row(n, prompt=[{"role": "user", "content": "word"}]) for n in range(2)]
    rows(example.parent / "problems.jsonl", *chats)
    [message] = errors(example, "train.problems_per_step=2", "data.sets={}")
    assert said in message


def test_weights_that_need_a_package_are_refused_where_it_is_missing(
    errors, passed, example, monkeypatch
):
    there = set()
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda name: name if name in there else None)
    weights = ["model.weights=bfloat16", "model.dtype=bfloat16"]
    [message] = errors(example, *weights)
    assert message == (
        'model: model.weights = "bfloat16" without [model.adapter] needs torchao, which is not '
        f"installed: {install_command('low-memory')}"
    )
    [message] = errors(example, *weights, "model.adapter.kind=lora")
    assert message.startswith("model: [model.adapter] needs PEFT, which is not installed")
    there |= {"torchao", "peft"}
    passed(example, *weights)
    monkeypatch.setattr("dph.runs.check_model.find_spec", lambda name: name[:5] != "wandb" or None)
    [message] = errors(example, 'track.to=["wandb", "tensorboard"]')
    assert message == "track.to: 'wandb' needs dph-rl[wandb] installed"


def test_the_memory_is_told_part_by_part_for_the_device_that_is_named(dph, example):
    code, out, _ = dph("recipe", "check", example, "--device-memory", 24)
    assert code == 0
    told = [line.strip() for line in out.splitlines() if line.startswith("  memory")]
    assert [line.partition(" = ")[0].rsplit(" ", 2)[0] for line in told[:2]] == [
        "memory, estimated: training",
        "memory, estimated: sampling",
    ]
    assert told[2:] == ["memory available: 24.0 GiB (a GPU of 24 GiB)"]
    cpu = ("--set", "model.device=cpu", "--device-memory", 2, "--json")
    memory = json.loads(dph("recipe", "check", example, *cpu)[1])["memory"]
    assert memory["device"] == {"name": "a machine of 2 GiB", "bytes": 2**31}
    assert memory["peak"] == max(memory["training"], memory["sampling"]) > memory["weights"]
    code, _, err = dph("recipe", "check", example, "--device-memory", 0)
    assert (code, "is above 0 GiB, got 0" in err) == (2, True)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (["sampling.max_rows=9", "train.steps=1"], "train.microbatch_tokens"),
        (["train.problems_per_step=12", "train.samples_per_problem=999"], "sampling.max_rows"),
    ],
)
def test_what_cannot_fit_is_an_error_with_what_to_do(dph, example, settings, advice):
    """The libraries alone take 0.6 GiB: so little less than that is left over."""
    if "max_rows" in advice:  # logits of many rows outweigh an update of few tokens
        settings = [*settings, "train.microbatch_tokens=20", "sampling.max_rows=99999"]
    words = (*flags(settings), "--device-memory", 0.6)
    code, out, err = dph("recipe", "check", example, *words)
    assert (code, out) == (2, "")
    part = "training" if "microbatch" in advice else "sampling"
    assert f"dph: error: {part} takes about 0.6 GiB, and a GPU of 0.6 GiB has 0.6: lower" in err
    assert advice in err
