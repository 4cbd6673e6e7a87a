from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import (
    changed_settings,
    load_recipe,
    recipe_digest,
    recipe_toml,
    resolve_recipe,
    save_recipe,
)
from dph.recipe.keys import NAMES_ELSEWHERE, known_keys
from dph.recipe.objective import SHORTHAND

TEXT = """
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
    path.write_text(TEXT)
    return path


def test_paths_in_a_file_start_at_its_directory(recipe_file):
    recipe, here = load_recipe(recipe_file), recipe_file.parent
    assert recipe.data.train == here / "train.jsonl"
    assert recipe.data.databases == here / "databases"
    assert [s.path for s in recipe.data.sets.values()] == [here / "dev.jsonl", here / "test.jsonl"]


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
    overrides = [
        "train.steps=9",
        "method=dph_f",
        "evaluate.k=[1, 2]",
        "objective.eta=0.5",
        "name=a",
    ]
    recipe = load_recipe(recipe_file, overrides=overrides, seed=3)
    assert (recipe.train.steps, recipe.method, recipe.evaluate.k) == (9, "dph_f", (1, 2))
    anchor = recipe.objective.anchors["rehearsal"]
    assert (anchor.weight, recipe.name, recipe.seed) == (0.5, "a", 3)


def test_a_wrong_element_of_a_list_is_told_once(recipe_file):
    with pytest.raises(SettingsError) as caught:
        load_recipe(recipe_file, overrides=["evaluate.k=[0]"])
    message = str(caught.value)
    assert message == "evaluate.k.0: Input should be greater than or equal to 1, got 0"


def test_the_last_override_wins(recipe_file):
    overrides = ["train.steps=9", "train.steps=10"]
    assert load_recipe(recipe_file, overrides=overrides).train.steps == 10


@pytest.mark.parametrize("override", ["train.steps", "=3", " =3"])
def test_an_override_has_a_key_and_a_value(recipe_file, override):
    with pytest.raises(SettingsError, match="key=value"):
        load_recipe(recipe_file, overrides=[override])


LONG = """
[objective.anchors.rehearsal]
divergence = "alpha"
alpha = 0.3
weight = 0.5
"""


@pytest.mark.parametrize(
    ("written", "override", "expected"),
    [
        (LONG, "objective.eta=0.1", ("alpha", 0.1, {"alpha": 0.3})),
        (LONG, "objective.divergence=forward_kl", ("forward_kl", 0.5, {"form": "k3"})),
        (
            LONG,
            "objective.anchors.rehearsal.divergence=forward_kl",
            ("forward_kl", 0.5, {"form": "k3"}),
        ),
        (
            "[objective]\neta = 0.5\n",
            "objective.anchors.rehearsal.weight=0.1",
            ("jensen_shannon", 0.1, {}),
        ),
        (
            "[objective]\njs_definition = true\n",
            "objective.js_definition=false",
            ("jensen_shannon", 0.2, {}),
        ),
    ],
)
def test_an_override_of_the_objective_wins_under_its_short_and_its_long_name(
    recipe_file, written, override, expected
):
    recipe_file.write_text(TEXT + written)
    anchor = load_recipe(recipe_file, overrides=[override]).objective.anchors["rehearsal"]
    assert (anchor.divergence, anchor.weight, anchor.parameters) == expected


def test_an_override_cannot_make_a_value_a_table(recipe_file):
    with pytest.raises(SettingsError, match=r"method\.x: method is not a table"):
        load_recipe(recipe_file, overrides=["method.x=1"])


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("train.stepz", r"train\.steps"),
        ("trian.steps", r"train\.steps"),
        ("objective.etta", r"objective\.eta"),
        ("learning_rate", r"train\.learning_rate"),
        ("train.lr", r"train\.learning_rate"),
        ("train.num_generations", r"train\.samples_per_problem"),
        ("objective.beta", r"objective\.kl_coefficient"),
        ("evaluate.max_new_tokens", r"evaluate\.max_tokens"),
        ("data.sets.test.verifer", r"data\.sets\.\*\.verifier"),
    ],
)
def test_an_unknown_key_is_refused_and_the_nearest_one_named(recipe_file, key, nearest):
    with pytest.raises(SettingsError, match=rf"unknown setting {key}; did you mean {nearest}\?"):
        load_recipe(recipe_file, overrides=[f"{key}=1"])


def test_all_unknown_keys_are_told_at_once(recipe_file):
    overrides = ["train.lr=1", "foo.bar=2", "train=3"]
    with pytest.raises(SettingsError) as caught:
        load_recipe(recipe_file, overrides=overrides)
    assert str(caught.value).count("unknown setting") == 1
    assert "unknown setting foo.bar" in str(caught.value)
    assert "train is a table of settings, got 3" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        load_recipe(recipe_file, overrides=overrides[:2])
    for part in ("train.lr; did you mean train.learning_rate?", "unknown setting foo.bar"):
        assert part in str(caught.value)


def test_a_recipe_is_found_by_a_path_given_as_text(recipe_file):
    assert load_recipe(str(recipe_file)) == load_recipe(recipe_file)


def test_every_name_of_another_package_leads_to_a_key_that_is_there():
    known = {key for key, _ in known_keys()} | {f"objective.{name}" for name in SHORTHAND}
    assert set(NAMES_ELSEWHERE.values()) <= known
    # FlowRL's beta is a key of its own; anywhere else beta is TRL's and verl's weight of the KL.
    assert {key.rpartition(".")[2] for key in known} & set(NAMES_ELSEWHERE) == {"beta"}
    with pytest.raises(SettingsError, match=r"train\.beta; did you mean objective\.kl_coefficient"):
        resolve_recipe({"train": {"beta": 0.1}})


def test_a_bare_path_of_a_set_takes_further_keys(recipe_file):
    overrides = [
        "data.sets.dev.verifier=number",
        "data.sets.new=x.jsonl",
        "data.sets.new.styles=sql",
    ]
    sets = load_recipe(recipe_file, overrides=overrides).data.sets
    assert (sets["dev"].path, sets["dev"].verifier) == (recipe_file.parent / "dev.jsonl", "number")
    assert (sets["new"].path, sets["new"].styles) == (Path.cwd() / "x.jsonl", "sql")


def test_an_unknown_key_like_no_other_points_to_the_list(recipe_file):
    with pytest.raises(SettingsError, match="dph recipe show"):
        load_recipe(recipe_file, overrides=["qqqq=1"])


def test_a_section_cannot_be_a_number(recipe_file):
    with pytest.raises(SettingsError, match="train is a table of settings, got 3"):
        load_recipe(recipe_file, overrides=["train=3"])


def test_the_sets_cannot_be_a_number():
    table = {"model": {"path": "m"}, "data": {"train": "t", "sets": 3}}
    with pytest.raises(SettingsError, match=r"data\.sets is a table"):
        resolve_recipe(table)


def test_a_set_cannot_be_a_number(recipe_file):
    with pytest.raises(SettingsError, match=r"data\.sets\.dev"):
        load_recipe(recipe_file, overrides=["data.sets.dev=3"])
    with pytest.raises(SettingsError, match=r"data\.sets is a table"):
        load_recipe(recipe_file, overrides=["data.sets=3", "data.train=t.jsonl"])


def test_an_unknown_method_is_refused():
    table = {"method": "ppo", "model": {"path": "m"}, "data": {"train": "t"}}
    with pytest.raises(SettingsError, match=r"method: .*'grpo'.*'ppo'"):
        resolve_recipe(table)


def test_a_method_of_the_wrong_type_is_refused():
    with pytest.raises(SettingsError, match="method"):
        resolve_recipe({"method": 3, "model": {"path": "m"}, "data": {"train": "t"}})


def test_what_is_missing_is_named_with_its_meaning():
    with pytest.raises(SettingsError, match=r"needs data \(data\.train\)") as caught:
        resolve_recipe({"model": {}})
    assert "the recipe needs model.path (directory of a saved" in str(caught.value)


def test_a_missing_file_and_a_broken_one_are_named(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the recipe .*nope\.toml"):
        load_recipe(tmp_path / "nope.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("method = ")
    with pytest.raises(SettingsError, match=r"broken\.toml is not valid TOML"):
        load_recipe(broken)
    broken.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"broken\.toml is not valid TOML"):
        load_recipe(broken)


def test_a_saved_recipe_gives_the_same_settings_wherever_it_lies(recipe_file, tmp_path):
    recipe = load_recipe(recipe_file)
    copy = tmp_path / "copy" / "recipe.toml"
    copy.parent.mkdir()
    save_recipe(recipe, copy)
    assert load_recipe(copy) == recipe
    assert copy.read_text() == recipe_toml(recipe)


def test_the_digest_changes_with_any_setting_and_with_nothing_else(recipe_file):
    recipe = load_recipe(recipe_file)
    other = load_recipe(recipe_file, overrides=["train.weight_decay=0.1"])
    assert recipe_digest(recipe) == recipe_digest(load_recipe(recipe_file))
    assert recipe_digest(recipe) != recipe_digest(other)
    assert recipe_digest(recipe.data, 0) != recipe_digest(recipe.data, 1)


def test_no_key_is_listed_twice():
    keys = [key for key, _ in known_keys()]
    assert len(keys) == len(set(keys))
    assert "data.sets.*.path" in keys


RECIPES = Path(__file__).parents[2] / "recipes"


OF_RUNS = sorted(RECIPES.rglob("*.toml"))


@pytest.mark.parametrize("path", OF_RUNS, ids=lambda path: path.stem)
def test_every_recipe_of_the_repository_is_valid(path):
    assert load_recipe(path).notes


def test_what_changed_between_two_recipes_is_listed(recipe_file):
    before = load_recipe(recipe_file)
    after = load_recipe(recipe_file, overrides=["train.steps=8", "evaluate.k=[1]"])
    assert changed_settings(before, before) == {}
    assert changed_settings(before, after) == {
        "train.steps": f"was {before.train.steps}, now 8",
        "evaluate.k": f"was {list(before.evaluate.k)}, now [1]",
    }


def test_a_message_speaks_of_lists_and_not_of_tuples(recipe_file):
    with pytest.raises(SettingsError, match=r"sampling\.stop: Input should be a list, got 'x'"):
        load_recipe(recipe_file, overrides=["sampling.stop=x"])


def test_what_several_settings_together_make_wrong_begins_with_their_names(recipe_file):
    tried = ("method=pass_at_k", "objective.advantage.k=8", "train.samples_per_problem=8")
    with pytest.raises(SettingsError, match=r"^objective\.advantage\.k=8 of pass_at_k needs at le"):
        load_recipe(recipe_file, overrides=tried)
