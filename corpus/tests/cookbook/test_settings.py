from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph_corpus.cookbook.settings import load_cookbook

REPOSITORY = Path(__file__).parents[3]
SMALL = """
[world]
[corpora.sql]
inputs = ["world:sql", "more=a/b.jsonl", "c/*.tar.gz"]
filter = "sql"
[mixtures.pretraining]
budget = 1000
shares = { sql = 1 }
[instruct.only]
parts = { annotators = "world:annotators", own = "own.jsonl" }
rows = { annotators = 5, own = 3 }
[base]
model = { width = 32, inner = 64, layers = 1, heads = 2 }
train = { steps = 2, warmup_steps = 1, context = 16, sequences_per_step = 2 }
[sft]
stages = [{ name = "only", learning_rate = 1e-3, max_tokens = 64, sequences_per_step = 2 }]
[rl]
"""


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


def test_rules_of_a_file_start_at_the_cookbook_wherever_rules_are_named(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "sql"\n')
    text = SMALL.replace('filter = "sql"', 'filter = "mine.toml"') + "[corpora.code]\n"
    text += 'inputs = ["c"]\n[ablation]\ncorpus = "sql"\nheldout = "code"\nfilter = "mine.toml"\n'
    cookbook = load(tmp_path, text)
    assert cookbook.ablation is not None
    place = str(tmp_path / "mine.toml")
    assert [cookbook.corpora["sql"].filter, cookbook.ablation.filter] == [place, place]


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


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("mixtures.pretraining.shares={code=1}", "names 'code'; there is sql"),
        ("instruct.only.rows={own=3}", "parts annotators, own; rows own"),
        ("instruct.only.parts.own='world:recipes'", "world:recipes needs .world. and is one of"),
        ("sft.stages=[{name='other'}]", "the stage 'other' of .sft. needs .instruct.other."),
        ("corpora.sql.recall={seeds='sql'}", "recall.seeds names 'sql'; there is none"),
        ("corpora.sql.recall={seeds='x',threshold=2.0}", "threshold must lie in .0, 1., got 2.0"),
        ("ablation={corpus='sql',heldout='sql'}", "ablation.heldout names 'sql'; there is none"),
        ("synth.q={kind='sql',generator='a:b'}", "kind sql takes only databases"),
        ("synth.q={kind='sql',databases='d'}", "name a writer: generator, model, or server with"),
        ("synth.q={kind='functions',corpus='x',model='m'}", "synth.q.corpus names 'x'; there is"),
        ("instruct.only.parts.own='synth:q'", "synth:q names 'q'; there is none"),
        ("base.train.warmup_steps=9", "warmup_steps=9, steps=2"),
        ("base.train.widht=9", "unknown key train.widht"),
        ("corpora.sql.filter='strict'", "fixed, opencoder, sql or a file .*, got 'strict'"),
        ("corpora.sql.filter='none.toml'", "there is no file .*none.toml"),
    ],
)
def test_what_is_wrong_anywhere_is_told_before_anything_runs(tmp_path, override, said):
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, SMALL, [override])


def test_a_stage_needs_the_one_before(tmp_path):
    with pytest.raises(SettingsError, match=r"\[rl\] needs \[sft\]"):
        load(tmp_path, SMALL.replace("[sft]", "[other]").split("[other]")[0] + "[rl]\n")


def test_the_shipped_cookbook_is_valid():
    cookbook = load_cookbook(REPOSITORY / "recipes" / "cookbook" / "cookbook.toml")
    assert set(cookbook.corpora) == {"code", "sql"}
    assert cookbook.rl.methods == ("grpo", "dph_f")
