import pytest

from dph.errors import SettingsError
from dph_corpus.base.recipes import load_lm_recipe, recipe_kind

BASE = """
kind = "base"
model = { width = 32, inner = 64, layers = 1, heads = 2 }
[data]
corpus = "docs"
[train]
steps = 10
warmup_steps = 2
context = 16
sequences_per_step = 4
"""
SFT = """
kind = "sft"
model = "base/model"
[[stages]]
name = "one"
rows = ["rows.jsonl"]
max_tokens = 64
sequences_per_step = 4
learning_rate = 1e-3
"""


def read(tmp_path, text, overrides=()):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return load_lm_recipe(path, overrides)


def test_paths_start_at_the_recipe_and_overrides_win(tmp_path):
    recipe = read(tmp_path, BASE, ["train.steps=20", "seed=3"])
    assert recipe.data.corpus == tmp_path / "docs"
    assert (recipe.train.steps, recipe.seed) == (20, 3)
    sft = read(tmp_path, SFT)
    assert (sft.model, sft.stages[0].rows) == (tmp_path / "base/model", (tmp_path / "rows.jsonl",))


def test_the_kind_of_a_recipe_is_told_before_it_is_read(tmp_path):
    (tmp_path / "rl.toml").write_text("method = 'grpo'")
    assert recipe_kind(tmp_path / "rl.toml") == ""
    with pytest.raises(SettingsError, match='kind must be "base" or "sft", got \'\''):
        load_lm_recipe(tmp_path / "rl.toml")


@pytest.mark.parametrize(
    ("text", "override", "said"),
    [
        (BASE, "train.warmup_steps=11", "warmup_steps=11, steps=10"),
        (BASE, "train.sequences_at_once=3", "sequences_per_step=4, sequences_at_once=3"),
        (BASE, "train.final_rate=1.0", "final_rate=1.0, learning_rate=0.0003"),
        (
            BASE,
            "data.annealing='x'",
            "needs train.annealing_steps, got annealing=.*x, annealing",
        ),
        (BASE, 'continued="there"', "not both"),
        (BASE, "model.heads=3", "width=32, heads=3"),
        (BASE, "train.stepz=5", "unknown key train.stepz; did you mean steps"),
        (BASE, "tokenizer.vocabulary=9", "greater than or equal to 261, got 9"),
        (SFT, "stages=[]", "at least 1 item"),
        (SFT, "chat=3", "chat: Input should be a valid boolean, got 3"),
    ],
)
def test_what_is_wrong_is_told_with_its_value(tmp_path, text, override, said):
    with pytest.raises(SettingsError, match=said):
        read(tmp_path, text, [override])


def test_two_stages_of_one_name_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="different names, got one, one"):
        read(tmp_path, SFT + SFT[SFT.index("[[stages]]") :])
