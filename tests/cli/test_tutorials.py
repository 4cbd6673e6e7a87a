"""The tutorials, word by word: their files are written and their commands run, one after another.

A block of commands is left out only if a comment above it says why (a GPU, a server). ``dph
quickstart`` has tests of its own; here its runs, recipes and model are made without it.
"""

import ast
import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from report_runs import make_runs
from scripted_policy import TEMPLATE, byte_tokenizer

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs/tutorials"
BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
UNTRIED = {"needs a GPU", "serves until Ctrl-C", "needs the model that TRL wrote"}


def blocks(name):
    return list(BLOCK.finditer((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")))


@pytest.fixture
def follow(dph, tmp_path, monkeypatch):
    """Do what a page says, in an empty directory; what every command printed, in order."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def go(name):
        printed = []
        for block in blocks(name):
            if block["title"]:
                (tmp_path / block["title"]).write_text(block["body"])
            elif block["language"] == "sh" and block["note"] not in UNTRIED:
                for line in filter(None, block["body"].splitlines()):
                    printed += [] if line.startswith("dph quickstart") else [command(line)]
        return printed

    def command(line):
        words = shlex.split(line, comments=True)
        words = [each for word in words for each in (sorted(map(str, Path().glob(word))) or [word])]
        assert words[0] == "dph", line
        code, out, err = dph(*words[1:])
        assert code == 0, f"{line}\n{err}"
        return out

    return go


@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda page: page.stem)
def test_every_command_is_run_or_says_why_not(page):
    known = {None, "example: trl diff", "in Python", *UNTRIED}
    assert {block["note"] for block in blocks(page.stem)} <= known
    assert f"(tutorials/{page.name})" in (ROOT / "docs/index.md").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("recipes")
def test_the_first_run_is_gone_on_with(follow, tmp_path):
    make_runs(tmp_path / "quickstart")
    lost, compared, *_, both = follow("first-run")
    assert "in_domain-0000" in lost
    assert "keep, explore" in compared
    assert "weaker" in both


def test_the_report_is_read(follow, tmp_path):
    make_runs(tmp_path / "quickstart")
    _, lost, found, both, compared = follow("reading-a-report")
    assert "in_domain-0000" in lost
    assert "1 lost" in found
    assert "in_domain-0000" in both
    assert "DPH-F" in compared or "dph_f" in compared
    assert (tmp_path / "report.html").is_file()


@pytest.fixture
def recipes(tmp_path, example):
    """The folder of recipes that a quickstart leaves, of the example and its model."""
    place = tmp_path / "quickstart/recipes"
    shutil.copytree(example.parent, place)
    text = example.read_text()
    assert "[presample]\n" in text
    shared = text.replace("[presample]\n", '[presample]\npool = "../pool"\n')
    (place / "dph_f.toml").write_text(shared)
    return place


@pytest.mark.slow
def test_own_data_are_trained_on(follow, tmp_path, example):
    for name in ("train", "dev"):
        shutil.copy(example.parent / "problems.jsonl", tmp_path / f"{name}.jsonl")
    shutil.copytree(example.parent / "model", tmp_path / "model")
    checked, *_, compared, _ = follow("own-data")
    assert "valid, method dph_f" in checked
    assert "dev" in compared
    assert (tmp_path / "report.html").is_file()


@pytest.mark.usefixtures("recipes")
def test_a_method_is_one_file(follow, tmp_path, monkeypatch):
    *_, compared, _ = follow("own-method")
    assert "rare" in compared
    assert 'kind = "rare:rare"' in Path("rare-run/recipe.toml").read_text()
    monkeypatch.syspath_prepend(tmp_path)
    (shown,) = [each["body"] for each in blocks("own-method") if each["note"] == "in Python"]
    example = doctest.DocTestParser().get_doctest(shown, {}, "own-method", None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.slow
def test_an_agent_comes_from_nothing(follow, tmp_path):
    tokenizer = byte_tokenizer("{% if enable_thinking %}{% endif %}" + TEMPLATE)
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = tmp_path / "Qwen/Qwen3-0.6B"  # comes before the model of this name on the Hub
    LlamaForCausalLM(config).save_pretrained(model)
    tokenizer.save_pretrained(model)
    checked, _, shown = follow("../guides/agents")
    assert "valid, method grpo" in checked
    assert "Where is the" in shown
    assert re.search(r"base \d/8, agent \d/8", shown)


def test_a_recipe_for_one_gpu_is_checked(follow):
    *_, checked = follow("gpu")
    assert "valid, method dph_f" in checked
    assert "a run would fetch" in checked


@pytest.mark.usefixtures("recipes")
def test_a_pool_is_made_before_the_script_changes(follow, tmp_path):
    follow("trl")
    assert (tmp_path / "quickstart/pool/manifest.json").is_file()


def test_the_diff_changes_two_names_and_adds_settings():
    (diff,) = [each["body"] for each in blocks("trl") if each["language"] == "diff"]
    before, after = (
        [line[1:] for line in diff.splitlines() if line[0] in kept] for kept in (" -", " +")
    )
    gone, new = ({line.strip() for line in one} for one in (before, after))
    assert gone - new == {
        "from trl import GRPOConfig, GRPOTrainer",
        "from dph import load_pool, load_recipe, run_verifier",
        "from dph.engines.trl import problems_dataset, reward_function",
        "trainer = GRPOTrainer(",
        "args=GRPOConfig(",
    }
    ast.parse("\n".join(before))
    ast.parse("\n".join(after))


# Messages: the headings of docs/faq.md are what the package says.


def spoken_texts():
    """All texts of the package, f-strings with a mark where something is filled in."""
    for path in sorted((ROOT / "src/dph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w+\}", "\0", node.value)


def test_every_message_of_the_questions_is_one_of_the_package():
    page = (ROOT / "docs/faq.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### `(.+?)`(.*)$", page, re.MULTILINE)
    texts = list(spoken_texts())
    messages = [message for message, _ in headings if message != "torch.OutOfMemoryError"]
    assert len(messages) >= 15
    for message in messages:
        pieces = message.split("...")
        near = [text for text in texts if all(piece in text for piece in pieces)]
        pattern = re.compile("[^\0]*\0[^\0]*".join(map(re.escape, pieces)))
        assert any(pattern.search(text) for text in near), message
