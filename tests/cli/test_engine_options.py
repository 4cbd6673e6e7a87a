import json
import re
import sqlite3
import tomllib
from contextlib import closing
from math import prod
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config

from dph import Outcome, Problem
from dph._base.provenance import install_command
from dph.cli.run import engine_overrides, require_engine_of_options


def test_an_option_is_the_setting_that_it_stands_for():
    found = engine_overrides("verl", nodes=2, gpus=None, address="head:6379")
    assert found == ["train.engine=verl", "verl.nodes=2", "verl.address=head:6379"]
    assert engine_overrides(None, nodes=None) == []


def test_an_option_of_an_engine_that_does_not_run_is_refused(refusal, example, tmp_path):
    assert "--nodes 2 belongs to the engine verl; train.engine is 'own'" in refusal(
        "run", example, "--nodes", 2, "--out", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()
    require_engine_of_options("verl", nodes=2, gpus=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "ray"), "train.engine: Input should be 'own' or 'verl'"),
        (("--engine", "trl"), "dph.engines.trl.DPHTrainer (docs/tutorials/trl.md)"),
        (("--engine", "verl", "--set", "train.shared_prompts=never"), "train.shared_prompts"),
        (("--engine", "verl", "--nodes", "2"), "verl.nodes = 2 needs a Ray cluster"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    refusal, example, tmp_path, options, said
):
    assert said in refusal("run", example, "--out", tmp_path / "run", *options)
    assert not (tmp_path / "run").exists()


def test_commands_for_a_cluster_are_printed_without_the_engine(
    dph, refusal, example, tmp_path, monkeypatch
):
    monkeypatch.setattr("dph.engines.stages.verl_stage.find_spec", lambda _: None)
    run = tmp_path / "run"
    words = ("run", example, "--out", run, "--engine", "verl")
    code, out, err = dph(*words, "--dry-run")
    assert code == 0, err
    assert out.startswith("# verl is not installed here")
    assert "python -P -m" in out.replace(" \\\n ", "")
    assert "dph.engines.verl.train" in out
    # What is named and not made by one of the commands is what a run writes first.
    first = next(line for line in out.splitlines() if line.startswith("# `dph run` writes"))
    read = re.findall(r"(?:--input |objective=)(\S+)", out)
    assert {Path(path).name for path in read} == {"problems.jsonl", "recipe.toml"}
    assert all(f"as {path}" in first for path in read)
    assert not run.exists()
    assert install_command("verl") in refusal(*words)
    assert not run.exists()


EIGHT = Path(__file__).parents[2] / "examples" / "verl" / "eight-gpus.toml"
CODER = Qwen2Config(
    vocab_size=152064,
    hidden_size=3584,
    intermediate_size=18944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    max_position_embeddings=32768,
)


@pytest.fixture
def eight(dph, tmp_path):
    """What the check of the example of eight GPUs says, with model and data at hand."""
    shapes = weight_shapes(CODER)
    assert sum(map(prod, shapes.values())) == 7_615_616_512  # 7.6B, as its page says
    CODER.save_pretrained(tmp_path)
    save_header(tmp_path / "model.safetensors", shapes)
    save_tokenizer(tmp_path)
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database:
        database.executescript("CREATE TABLE t (x INT);")
    row = {"prompt": " ".join(["word"] * 3000), "gold_sql": "SELECT 1", "database": "a.sqlite"}
    text = "".join(json.dumps(row | {"problem_id": str(n)}) + "\n" for n in range(128))
    (tmp_path / "train.jsonl").write_text(text)

    def check(*more):
        data = [f"data.train={tmp_path}/train.jsonl", f"data.databases={tmp_path}"]
        settings = [f"model.path={tmp_path}", *data, "data.sets={}", *more]
        words = ("recipe", "check", EIGHT, "--engine", "verl", "--device-memory", 80)
        return dph(*words, settings=settings)

    return check


def test_the_example_of_eight_gpus_says_what_each_of_them_holds(eight):
    code, out, err = eight()
    assert code == 0, err
    told = [line.strip() for line in out.splitlines() if "memory of each" in line]
    written = " ".join(line.removeprefix("# ") for line in EIGHT.read_text().splitlines())
    assert len(told) == 2
    for line in told:
        assert line in written, told
    # By hand: 16 bytes of each of 7.6e9 numbers, shared by eight, are 14.2 GiB.
    assert "weights 3.5 GiB, optimizer 7.1 GiB, gradients 3.5 GiB" in told[0]
    assert "vLLM 48.0 GiB" in told[1]


def test_one_gpu_is_too_few_and_a_setting_that_verl_refuses_is_named(eight):
    code, _, err = eight("verl.gpus=1")
    assert code == 2
    assert "share the weights among more GPUs (verl.gpus, verl.nodes)" in err
    code, _, err = eight("train.final_rate=0.5")
    assert code == 2
    assert "train.final_rate = 0.5 is not possible with train.engine = 'verl'" in err


PLACE = Path(__file__).parents[2] / "recipes" / "gpu"
NAMES = sorted(path.stem for path in PLACE.glob("*.toml"))
SIZES = {  # hidden, inner, layers, heads, tied, numbers
    "Qwen/Qwen3-0.6B": (1024, 3072, 28, 16, True, 596_049_920),
    "Qwen/Qwen3-1.7B": (2048, 6144, 28, 16, True, 1_720_574_976),
    "Qwen/Qwen3-4B": (2560, 9728, 36, 32, True, 4_022_468_096),
    "Qwen/Qwen3-8B": (4096, 12288, 36, 32, False, 8_190_735_360),
}
CONFIGS = {
    name: Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        tie_word_embeddings=tied,
    )
    for name, (hidden, inner, layers, heads, tied, _) in SIZES.items()
}
PARAMETERS = {name: sizes[-1] for name, sizes in SIZES.items()}
"""As their pages on the Hub say, to the digits that they give: 0.6B, 1.7B, 4.0B and 8.2B."""
PROMPT = {"gsm8k": 256, "spider": 3000}
"""Tokens of the longest prompt that is assumed; Spider's are its schemas."""


def weight_shapes(config):
    """Names and shapes of the weights that a model of this config saves."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    return {name: tuple(p.shape) for name, p in model.state_dict().items() if name not in tied}


def save_header(path, shapes):
    """A file of weights in bfloat16 that has no content and takes no room on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def save_tokenizer(directory):
    inner = Tokenizer(models.WordLevel({"<eos>": 0, "<unk>": 1, "word": 2}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>", unk_token="<unk>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %} word{% endif %}"
    )
    tokenizer.save_pretrained(directory)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """The directory that stands for a model of the Hub."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = directory = tmp_path_factory.mktemp("model")
            shapes = weight_shapes(CONFIGS[name])
            assert sum(map(prod, shapes.values())) == PARAMETERS[name]
            CONFIGS[name].save_pretrained(directory)
            save_header(directory / "model.safetensors", shapes)
            save_tokenizer(directory)
        return made[name]

    return make


@pytest.fixture(scope="module")
def data_of(tmp_path_factory):
    """Settings that give a recipe a few problems of a task, in the task's own columns."""
    directory = tmp_path_factory.mktemp("data")

    def make(task):
        prompt = " ".join(["word"] * PROMPT[task])
        if task == "gsm8k":
            row = {"question": prompt, "answer": "He pays 7 * 10 + 2 = 72\n#### 72"}
            settings = ["data.sets={}"]
        else:
            with closing(sqlite3.connect(directory / "a.sqlite")) as connection:
                connection.executescript("DROP TABLE IF EXISTS t; CREATE TABLE t (x INT);")
            row = {"prompt": prompt, "gold_sql": "SELECT x FROM t", "database": "a.sqlite"}
            settings = [f"data.databases={directory}", "data.sets={}"]
        rows = [row | ({} if task == "gsm8k" else {"problem_id": f"p{n}"}) for n in range(64)]
        path = directory / f"{task}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        return [f"data.train={path}", *settings]

    return make


@pytest.fixture
def checked(dph, request, model_of, data_of):
    """What ``dph recipe check --json`` says of a recipe on a card of so many bytes."""
    request.getfixturevalue("extras_installed")

    def check(name, memory, *more):
        table = tomllib.loads((PLACE / f"{name}.toml").read_text())
        settings = [f"model.path={model_of(table['model']['path'])}", *data_of(name.split("-")[0])]
        words = ("recipe", "check", PLACE / f"{name}.toml", "--device-memory", memory / 2**30)
        code, out, _ = dph(*words, "--json", settings=(*settings, *more))
        return code, json.loads(out)

    return check


def test_there_is_one_for_each_model_and_each_way_of_training_it():
    ways = {tuple(name.split("-")[1:]) for name in NAMES}
    assert {size for size, _, _ in ways} == {name.rpartition("-")[2].lower() for name in SIZES}
    both = {(way, card) for _, way, card in ways}
    assert both == {(way, card) for way in ("full", "lora") for card in ("24gb", "80gb")}
    assert {name.partition("-")[0] for name in NAMES} == set(PROMPT)
    assert len(NAMES) <= 12


@pytest.mark.parametrize("name", NAMES)
def test_each_says_that_it_was_not_run_and_nothing_that_a_gpu_has_by_default(name):
    text = (PLACE / f"{name}.toml").read_text()
    table = tomllib.loads(text)
    assert not {"dtype", "kernels"} & table["model"].keys()
    assert table["sampling"].keys() == {"max_tokens"}
    assert table["data"]["template"] == {"enable_thinking": False}  # so max_tokens suffice
    assert text.partition("\n")[0].endswith(f"of {name.split('-')[-1][:2]} GB. Not run.")
    assert table["notes"].startswith("Not run: ")
    assert table["name"] == name
    assert ("adapter" in table["model"]) == ("-lora-" in name)


@pytest.mark.parametrize("name", NAMES)
def test_each_fits_its_card_by_the_estimate_and_the_readme_says_how_well(checked, name):
    card = int(name.split("-")[-1][:2])
    code, found = checked(name, card * 1e9)  # a maker's GB, of which drivers leave a little less
    assert (code, found["errors"]) == (0, [])
    memory = found["memory"]
    assert memory["device"]["bytes"] == card * 10**9
    assert memory["peak"] < 0.95 * card * 1e9
    told = " | ".join(f"{memory[part] / 2**30:.1f}" for part in ("training", "sampling"))
    table = (PLACE.parent / "README.md").read_text()
    row = re.search(rf"^\| \[gpu/{re.escape(name)}\.toml\]\([^)]*\) \|(.*)\|$", table, re.MULTILINE)
    assert row
    assert row[1].strip() == f"{told} | not run"


@pytest.mark.parametrize(
    ("name", "memory", "more", "advice"),
    [
        ("spider-8b-full-80gb", 24e9, [], "train an adapter"),
        ("gsm8k-8b-lora-80gb", 16e9, [], "train an adapter"),
        (
            *("gsm8k-4b-lora-24gb", 24e9, ["model.gradient_checkpointing=false"]),
            "or set model.gradient_checkpointing = true",
        ),
    ],
)
def test_what_is_meant_for_a_larger_card_is_refused(checked, name, memory, more, advice):
    code, found = checked(name, memory, *more)
    assert code == 2
    [message] = found["errors"]
    assert f"and a GPU of {memory / 2**30:g} GiB has {memory / 2**30:.1f}: " in message
    assert advice in message


@pytest.mark.parametrize(
    ("response", "gold", "outcome"),
    [
        ("It is 7 * 10 + 2, so \\boxed{72}.", "7 * 10 + 2 = 72\n#### 72", Outcome.CORRECT),
        ("That makes 1200 in all.", "<<3*400=1200>>1200\n#### 1,200", Outcome.CORRECT),
        ("70", "7 * 10 + 2 = 72\n#### 72", Outcome.WRONG),
        ("I do not know.", "#### 72", Outcome.NO_ANSWER),
        ("72", "no number", Outcome.BAD_GOLD),
    ],
)
def test_the_gold_answer_of_gsm8k_stands_behind_its_mark(response, gold, outcome, monkeypatch):
    monkeypatch.syspath_prepend(str(PLACE))
    from gsm8k import grade  # noqa: PLC0415

    problem = Problem(problem_id="p", prompt="?", answer={"answer": gold})
    assert grade(response, problem).outcome is outcome
