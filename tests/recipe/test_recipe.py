import re
from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import changed_settings, load_recipe, recipe_digest, resolve_recipe
from dph.recipe.keys import NAMES_ELSEWHERE, known_keys, term_parameters
from dph.recipe.objective import SHORTHAND, AdvantageSettings

FILE = """
method = "dph_js"
[model]
path = "model"
[data]
train = "train.jsonl"
databases = "databases"
sets.dev = "dev.jsonl"
sets.test = { path = "test.jsonl", verifier = "sql" }
[train]
steps = 7
"""


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(FILE)
    return path


def test_a_model_name_is_a_path_only_if_it_is_there(recipe_file):
    assert load_recipe(recipe_file).model.path == "model"
    (recipe_file.parent / "model").mkdir()
    assert load_recipe(recipe_file).model.path == str(recipe_file.parent / "model")


def test_paths_in_overrides_start_at_the_working_directory(recipe_file, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    overrides = ["data.train=mine.jsonl", "data.sets.test.path=mine_test.jsonl"]
    recipe = load_recipe(recipe_file, overrides=overrides)
    assert recipe.data.train == elsewhere / "mine.jsonl"
    assert recipe.data.databases == tmp_path / "databases"
    assert recipe.data.sets["test"].path == elsewhere / "mine_test.jsonl"
    assert recipe.data.sets["dev"].path == tmp_path / "dev.jsonl"


def test_overrides_are_toml_values_and_bare_words_are_texts(recipe_file):
    overrides = ["train.steps=8", "method=dph_f", "evaluate.k=[1, 2]", "objective.eta=0.5"]
    overrides += ["name=a", "train.steps=9"]  # the last one wins
    recipe = load_recipe(recipe_file, overrides=overrides, seed=3)
    assert (recipe.train.steps, recipe.method, recipe.evaluate.k) == (9, "dph_f", (1, 2))
    anchor = recipe.objective.anchors["rehearsal"]
    assert (anchor.weight, recipe.name, recipe.seed) == (0.5, "a", 3)


LONG = """
[objective.anchors.rehearsal]
divergence = "alpha"
alpha = 0.3
weight = 0.5
"""
ETA, DEFINITION = "[objective]\neta = 0.5\n", "[objective]\njs_definition = true\n"
TO_FORWARD_KL = ("forward_kl", 0.5, {"form": "k3"})


@pytest.mark.parametrize(
    ("written", "override", "expected"),
    [
        (LONG, "eta=0.1", ("alpha", 0.1, {"alpha": 0.3})),
        (LONG, "divergence=forward_kl", TO_FORWARD_KL),
        (LONG, "anchors.rehearsal.divergence=forward_kl", TO_FORWARD_KL),
        (ETA, "anchors.rehearsal.weight=0.1", ("jensen_shannon", 0.1, {})),
        (DEFINITION, "js_definition=false", ("jensen_shannon", 0.2, {})),
    ],
)
def test_an_override_of_the_objective_wins_under_its_short_and_its_long_name(
    recipe_file, written, override, expected
):
    recipe_file.write_text(FILE + written)
    recipe = load_recipe(recipe_file, overrides=[f"objective.{override}"])
    anchor = recipe.objective.anchors["rehearsal"]
    assert (anchor.divergence, anchor.weight, anchor.parameters) == expected


NEAREST = {
    "train.stepz": "train.steps",
    "trian.steps": "train.steps",
    "objective.etta": "objective.eta",
    "learning_rate": "train.learning_rate",
    "train.lr": "train.learning_rate",
    "train.num_generations": "train.samples_per_problem",
    "objective.beta": "objective.kl_coefficient",
    "evaluate.max_new_tokens": "evaluate.max_tokens",
    "data.sets.test.verifer": "data.sets.*.verifier",
}
REFUSED = {
    **{
        f"{key}=1": re.escape(f"unknown setting {key}; did you mean {near}?")
        for key, near in NEAREST.items()
    },
    "evaluate.k=[0]": r"^evaluate\.k\.0: Input should be greater than or equal to 1, got 0$",
    "qqqq=1": "dph recipe show",
    "train.lr=1;foo.bar=2;train=3": (  # all at once
        r"(?=.*unknown setting foo\.bar)(?=.*train is a table of settings, got 3)"
    ),
    "data.sets.dev=3": r"data\.sets\.dev",
    "data.sets=3;data.train=t.jsonl": r"data\.sets is a table",
    "method=3": "method",
    "sampling.stop=x": r"sampling\.stop: Input should be a list, got 'x'",
    "method=pass_at_k;objective.advantage.k=8;train.samples_per_problem=8": (
        r"^objective\.advantage\.k=8 of pass_at_k needs at le"
    ),
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_wrong_key_or_value_is_told_once_and_the_nearest_key_named(recipe_file, overrides):
    with pytest.raises(SettingsError, match=REFUSED[overrides]):
        load_recipe(recipe_file, overrides=overrides.split(";"))


def test_every_name_of_another_package_leads_to_a_key_that_is_there():
    known = {*known_keys()} | {f"objective.{name}" for name in SHORTHAND}
    assert set(NAMES_ELSEWHERE.values()) <= known
    # FlowRL's beta is a key of its own; anywhere else beta is TRL's and verl's weight of the KL.
    assert {key.rpartition(".")[2] for key in known} & set(NAMES_ELSEWHERE) == {"beta"}
    with pytest.raises(SettingsError, match=r"train\.beta; did you mean objective\.kl_coefficient"):
        resolve_recipe({"train": {"beta": 0.1}})


def test_a_bare_path_of_a_set_takes_further_keys(recipe_file):
    overrides = ["data.sets.dev.verifier=number", "data.sets.new=x.jsonl"]
    overrides.append("data.sets.new.styles=sql")
    sets = load_recipe(recipe_file, overrides=overrides).data.sets
    assert (sets["dev"].path, sets["dev"].verifier) == (recipe_file.parent / "dev.jsonl", "number")
    assert (sets["new"].path, sets["new"].styles) == (Path.cwd() / "x.jsonl", "sql")


def test_what_is_missing_is_named_with_its_meaning():
    with pytest.raises(SettingsError, match=r"needs data \(data\.train\)") as caught:
        resolve_recipe({"model": {}})
    assert "the recipe needs model.path (directory of a saved" in str(caught.value)


@pytest.mark.parametrize("content", [b"method = ", b"\xff", None])
def test_a_missing_file_and_a_broken_one_are_named(tmp_path, content):
    path = tmp_path / "it.toml"
    if content is not None:
        path.write_bytes(content)
    said = "cannot read the recipe .*" if content is None else ""
    with pytest.raises(SettingsError, match=rf"{said}it\.toml(: | is not valid TOML)"):
        load_recipe(path)


def test_the_digest_changes_with_any_setting_and_with_nothing_else(recipe_file):
    recipe = load_recipe(recipe_file)
    other = load_recipe(recipe_file, overrides=["train.weight_decay=0.1"])
    assert recipe_digest(recipe) == recipe_digest(load_recipe(recipe_file))
    assert recipe_digest(recipe) != recipe_digest(other)
    assert recipe_digest(recipe.data, 0) != recipe_digest(recipe.data, 1)


def test_what_changed_between_two_recipes_is_listed(recipe_file):
    before = load_recipe(recipe_file)
    after = load_recipe(recipe_file, overrides=["train.steps=8", "evaluate.k=[1]"])
    assert changed_settings(before, before) == {}
    assert changed_settings(before, after) == {
        "train.steps": f"was {before.train.steps}, now 8",
        "evaluate.k": f"was {list(before.evaluate.k)}, now [1]",
    }


def test_a_parameter_of_several_terms_is_one_key_and_of_one_term_it_has_its_own_default():
    keys = known_keys()
    assert keys["objective.advantage.k"] == (
        "the k of Pass@k (kind pass_at_k, pkpo); the k of Pass@k (default 16) (kind bbg_group)"
    )
    assert "(kind group, f_grpo, ucpo, " in keys["objective.advantage.scale"]
    assert term_parameters(AdvantageSettings)["k"][1] == 4
    found = term_parameters(AdvantageSettings, "bbg_group")
    defaults = {name: default for name, (_, default) in found.items()}
    assert defaults == {"k": 16, "tau": 0.01, "scale": "std"}
    assert term_parameters(AdvantageSettings, "my_module:mine") == {}
