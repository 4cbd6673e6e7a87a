from pathlib import Path

import pytest

from case_tables import table
from dph.errors import SettingsError
from dph_corpus.base.recipes import WarmupStableDecay, load_lm_recipe, recipe_kind

RECIPES = Path(__file__).parent / "recipes"
BASE, SFT = ((RECIPES / f"{kind}.toml").read_text() for kind in ("base", "sft"))


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


@pytest.mark.parametrize(("kind", "override", "said"), table("base/cases.toml")["wrong"])
def test_what_is_wrong_is_told_with_its_value(tmp_path, kind, override, said):
    with pytest.raises(SettingsError, match=said):
        read(tmp_path, {"base": BASE, "sft": SFT}[kind], [override])


def test_two_stages_of_one_name_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="different names, got one, one"):
        read(tmp_path, SFT + SFT[SFT.index("[[stages]]") :])


def test_opencoders_rates_fall_from_3e_4_to_1e_5_by_the_same_factor_each_step():
    rates = WarmupStableDecay(warmup=2000, stable=1000, decay=500, final=1e-5 / 3e-4)
    assert 3e-4 * rates(0) == pytest.approx(3e-4 / 2000)
    assert rates(1999) == rates(2000) == rates(2999) == 1.0
    factors = {round(rates(step + 1) / rates(step), 12) for step in range(3000, 3499)}
    assert factors == {round((1 / 30) ** (1 / 500), 12)}
    assert 3e-4 * rates(rates.steps - 1) == pytest.approx(1e-5)
    assert rates(rates.steps + 7) == rates(rates.steps - 1)


@pytest.mark.parametrize(
    ("change", "said"), [({"warmup": -1}, "warmup=-1"), ({"final": 0.0}, r"\(0, 1\], got 0.0")]
)
def test_what_is_out_of_range_is_told_with_its_value(change, said):
    with pytest.raises(SettingsError, match=said):
        WarmupStableDecay(**({"warmup": 1, "stable": 1, "decay": 1, "final": 0.1} | change))
