from importlib import import_module
from pathlib import Path

import pytest

from case_tables import table
from corpus.tests.cookbook.small_world import make
from dph.errors import SettingsError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.runs.progress import Silent
from dph_corpus.cookbook.settings import Cookbook, load_cookbook
from dph_corpus.cookbook.stages import STAGES, Pipeline
from dph_corpus.cookbook.writers import ModelWriter, open_generator
from dph_corpus.settings import SynthSettings
from tiny_models import build_model, build_tokenizer

RECIPES = Path(__file__).parents[2] / "recipes"
SMALL = Path(__file__).with_name("settings.toml").read_text()


def load(tmp_path, text, overrides=()):
    path = tmp_path / "cookbook.toml"
    path.write_text(text)
    return load_cookbook(path, overrides)


def test_inputs_start_at_the_file_and_what_the_world_writes_is_left(tmp_path):
    cookbook = load(tmp_path, SMALL)
    assert cookbook.corpora["sql"].inputs == (
        "world:sql",
        f"more={tmp_path}/a/b.jsonl",
        f"{tmp_path}/c/*.tar.gz",
    )
    hub = "more=hf://datasets/org/name?config=python&split=test"
    named = load(tmp_path, SMALL.replace("more=a/b.jsonl", hub)).corpora["sql"].inputs
    assert named[1] == hub
    assert cookbook.instruct["only"].parts["own"] == f"{tmp_path}/own.jsonl"


def test_rules_of_a_file_start_at_the_cookbook(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "sql"\n')
    cookbook = load(tmp_path, SMALL.replace('filter = "sql"', 'filter = "mine.toml"'))
    assert cookbook.corpora["sql"].filter == str(tmp_path / "mine.toml")


def test_recipes_read_what_earlier_stages_write(tmp_path):
    cookbook = load(tmp_path, SMALL)
    base, sft = cookbook.base_recipe(tmp_path), cookbook.sft_recipe(tmp_path)
    assert base.data.corpus == tmp_path / "mixtures" / "pretraining"
    assert sft.model == tmp_path / "base" / "model"
    assert sft.stages[0].rows == (tmp_path / "instruct" / "only" / "rows.jsonl",)


def test_a_seed_of_models_is_that_of_their_recipes_and_leaves_the_data(tmp_path):
    for overrides, expected in (("seed=3",), 3), (("seed=3", "model_seed=7"), 7):
        cookbook = load(tmp_path, SMALL, overrides)
        assert cookbook.seed == 3
        assert cookbook.base_recipe(tmp_path).seed == expected
        assert cookbook.sft_recipe(tmp_path).seed == expected


@pytest.mark.parametrize(("override", "said"), table("cookbook/cases.toml")["wrong"])
def test_what_is_wrong_anywhere_is_told_before_anything_runs(tmp_path, override, said):
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, SMALL, [override])


def test_a_stage_needs_the_one_before(tmp_path):
    with pytest.raises(SettingsError, match=r"\[rl\] needs \[sft\]"):
        load(tmp_path, SMALL.replace("[sft]", "[other]").split("[other]")[0] + "[rl]\n")


def test_files_of_your_own_stand_for_a_world(tmp_path):
    text = SMALL.replace('[world]\nmake = "mine:make"\n', "").replace("world:", "")
    text += '[rl.settings.data]\ntrain = "a.jsonl"\nsets.dev = "b.jsonl"\nverifier = "math"\n'
    recipes = load(tmp_path, text).rl_recipes(tmp_path / "model", tmp_path / "pool", {})
    assert [recipe.data.train for recipe in recipes.values()] == [tmp_path / "a.jsonl"] * 2
    assert recipes["grpo"].data.sets["dev"].path == tmp_path / "b.jsonl"
    with pytest.raises(SettingsError, match=r"world:sql needs \[world\]"):
        load(tmp_path, SMALL.replace('[world]\nmake = "mine:make"\n', ""))


def test_settings_of_a_method_are_laid_over_those_of_all(tmp_path):
    text = f"{SMALL}settings = {{ train = {{ epochs = 2 }} }}\nof_method.dph_f.train.epochs = 3\n"
    recipes = load(tmp_path, text).rl_recipes(Path("m"), Path("p"), {"data": {"train": "t.jsonl"}})
    assert {name: recipe.train.epochs for name, recipe in recipes.items()} == {
        "grpo": 2,
        "dph_f": 3,
    }


def test_the_shipped_cookbook_is_valid():
    cookbook = load_cookbook(RECIPES / "cookbook" / "cookbook.toml")
    assert set(cookbook.corpora) == {"code", "sql"}
    assert cookbook.rl.methods == ("grpo", "dph_f")


def test_every_row_names_a_function_that_is_there():
    for stage in STAGES:
        module, _, function = stage.entry.partition(":")
        found = import_module(f"dph_corpus.cookbook.{module}")
        assert callable(getattr(found, function)), stage.name


def test_a_name_that_the_world_does_not_make_is_told_with_those_that_it_makes(tmp_path):
    cookbook = Cookbook(corpora={"own": {"inputs": ["a"]}})
    pipeline = Pipeline(cookbook=cookbook, directory=tmp_path, progress=Silent(), workers=1)
    pipeline.world = make({"files": 1}, tmp_path, seed=0, workers=1)
    assert Path(pipeline.place("world:sql")) == tmp_path / "sql"
    with pytest.raises(SettingsError, match="makes world:sql, world:annotators"):
        pipeline.place("world:else")


SERVER = {"kind": "functions", "model": "m", "server": "http://127.0.0.1:1", "key_env": "THE_KEY"}


def test_a_function_or_a_server_writes_as_it_is_named(monkeypatch):
    monkeypatch.setenv("THE_KEY", "secret")
    function = open_generator(
        SynthSettings(kind="functions", generator="corpus.tests.synth.small_generators:averages")
    )
    assert function.identity == {"function": "corpus.tests.synth.small_generators:averages"}
    server = open_generator(SynthSettings(**SERVER, max_tokens=9))
    assert server.identity == {"server": "m", "max_tokens": 9, "temperature": 1.0}


def test_a_key_that_is_not_set_is_told(monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    with pytest.raises(SettingsError, match="set THE_KEY to"):
        open_generator(SynthSettings(**SERVER))


PARAMETERS = SamplingParameters(max_tokens=12, stop_token_ids=(1,))
PROMPTS = ["abc", "hello", "abc", "x y z"]
SEEDS = [11, 12, 13, 14]


def writer():
    tokenizer = build_tokenizer()
    sampler = TorchSampler(build_model(), tokenizer)
    return ModelWriter(
        sampler, lambda text: tuple(tokenizer.encode(text)), PARAMETERS, {"model": "tiny"}
    )


def test_an_answer_hangs_on_its_prompt_and_its_seed_alone():
    write = writer()
    together = write(PROMPTS, SEEDS)
    alone = [write([prompt], [seed])[0] for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    assert together == alone
    assert together[0] != together[2]  # the same prompt with another seed
