import json
import shutil
from pathlib import Path

import pytest

from dph_corpus.cli import main
from small_corpora import rows_file
from small_lm import code_corpus

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
RECIPES = Path(__file__).parents[1] / "base" / "recipes"


@pytest.fixture
def recipes(tmp_path):
    code_corpus(tmp_path / "docs", count=20)
    rows = [{"prompt": f"def f{n}", "response": "(x): return x"} for n in range(6)]
    rows_file(tmp_path / "rows.jsonl", rows)
    shutil.copytree(RECIPES, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_base_model_is_made_and_then_tuned(recipes, capsys):
    pytest.importorskip("trl")
    assert main(["base", f"{recipes}/base.toml", "--out", f"{recipes}/base", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"model": f"{recipes}/base/model"}
    assert main(["sft", f"{recipes}/sft.toml", "--out", f"{recipes}/sft"]) == 0
    assert capsys.readouterr().out == f"model: {recipes}/sft/one/model\n"
    assert (recipes / "sft" / "one" / "model" / "model.safetensors").is_file()


def test_a_recipe_is_checked_and_what_is_not_there_yet_is_a_note(recipes, capsys):
    assert main(["recipe", "check", f"{recipes}/base.toml"]) == 0
    out = capsys.readouterr().out
    assert "valid, kind base" in out
    assert "10 steps of 64 tokens" in out
    assert main(["recipe", "check", f"{recipes}/sft.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"]
    assert found["notes"] == [f"the model {recipes}/base/model does not exist yet"]


def test_a_corpus_that_is_none_is_an_error(recipes, capsys):
    (recipes / "docs" / "manifest.json").unlink()
    assert main(["recipe", "check", f"{recipes}/base.toml"]) == 2
    assert "is not a corpus" in capsys.readouterr().err


def test_a_recipe_of_the_other_kind_is_refused_with_the_right_verb(recipes, capsys):
    assert main(["sft", f"{recipes}/base.toml", "--out", f"{recipes}/out"]) == 2
    assert 'has kind = "base": run `dph-corpus base`' in capsys.readouterr().err
    assert not (recipes / "out").exists()
