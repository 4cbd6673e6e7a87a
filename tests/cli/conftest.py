"""A model that has half learnt the example task, so that every stage has something to do."""

import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dph.cli import main

EXAMPLE = Path(__file__).parents[2] / "recipes" / "example-own-task"


def problems():
    return [json.loads(line) for line in (EXAMPLE / "problems.jsonl").read_text().splitlines()]


def make_tokenizer():
    rows = problems()
    words = sorted({w for row in rows for w in (*row["prompt"].split(), row["answer"])})
    vocabulary = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )


def _learn(model, tokenizer, *, steps):
    """Teach the model each answer: it knows the first half well and the second half a little."""
    rows = problems()
    texts = [[*tokenizer.encode(f"{r['prompt']} {r['answer']}"), 1] for r in rows]
    tokens, weight = torch.tensor(texts), torch.ones(len(rows))
    weight[len(rows) // 2 :] = 0.1
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        logits = model(tokens).logits[:, -3:-1]
        losses = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), tokens[:, -2:], reduction="none"
        )
        optimizer.zero_grad()
        (losses * weight[:, None]).mean().backward()
        optimizer.step()


@pytest.fixture(scope="session")
def speller(tmp_path_factory):
    """The directory of the model."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=32,
            eos_token_id=1,
            pad_token_id=0,
            bos_token_id=None,
        )
    )
    _learn(model, tokenizer, steps=60)
    directory = tmp_path_factory.mktemp("speller")
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture
def example(tmp_path, speller, monkeypatch):
    """A copy of the example task with its model, and the working directory beside it."""
    directory = tmp_path / "task"
    shutil.copytree(EXAMPLE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(speller, directory / "model")
    monkeypatch.chdir(tmp_path)
    return directory / "recipe.toml"


@pytest.fixture
def extras_installed(monkeypatch):
    """A machine where every package is that only some settings need."""
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda name: name)


@pytest.fixture(autouse=True)
def _leave_the_process_as_it_was(monkeypatch):
    """Verbs silence libraries: undo it."""
    for name in (
        "TRANSFORMERS_VERBOSITY",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "TOKENIZERS_PARALLELISM",
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with warnings.catch_warnings():
        yield


@pytest.fixture
def dph(capsys):
    """Run the command line here, with settings: ``dph(*words) -> (code, stdout, stderr)``."""

    def run(*words, settings=()):
        capsys.readouterr()
        given = (word for setting in settings for word in ("--set", setting))
        code = main([str(word) for word in (*words, *given)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def document(dph):
    """What a command prints for machines, without an error."""

    def read(*words, **how):
        code, out, err = dph(*words, "--json", **how)
        assert code == 0, err
        return json.loads(out)

    return read


@pytest.fixture
def refusal(dph):
    """The one line in which a command is refused as bad input; it prints nothing else."""

    def line(*words, **how):
        code, out, err = dph(*words, **how)
        assert (code, out) == (2, ""), err
        (error,) = (each for each in err.splitlines() if each.startswith("dph: error: "))
        assert err.endswith(f"{error}\n")
        return error

    return line


class Clock:
    """A clock that only moves by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()
