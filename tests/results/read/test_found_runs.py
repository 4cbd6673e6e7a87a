import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.results.read.found_runs import compared_runs, find_runs, runs_at, the_run
from dph.runs.evaluate.samples_file import write_samples
from report_runs import make_runs

SMALL = {"in_domain": 2}


@pytest.fixture
def runs(tmp_path):
    return make_runs(tmp_path / "runs", sets=SMALL)


def test_a_directory_of_runs_stands_for_all_but_the_base_which_comes_by_itself(runs):
    assert runs_at([runs]) == [runs / "dph_f", runs / "grpo"]
    assert [one.base.path for one in find_runs([runs])] == [runs / "base"] * 2
    assert runs_at([runs / "grpo", runs / "base"]) == [runs / "grpo", runs / "base"]


def test_a_directory_with_one_run_is_that_run_and_one_with_several_asks(runs):
    assert the_run(runs / "grpo") == runs / "grpo"
    with pytest.raises(DataError, match=rf"holds 2 runs, name one: {runs}/dph_f, {runs}/grpo"):
        the_run(runs)
    (runs / "dph_f").rename(runs / "base" / "dph_f")
    assert the_run(runs) == runs / "grpo"


def test_a_run_alone_says_why(runs):
    (runs / "dph_f" / "samples.parquet").unlink()
    (runs / "base" / "samples.parquet").unlink()
    not_evaluated, alone = find_runs([runs])
    assert not_evaluated.why_alone == f"{runs / 'dph_f'}: not evaluated"
    assert alone.why_alone == (
        f"{runs / 'grpo'}: there is no {runs / 'base' / 'samples.parquet'} to compare it with"
    )
    assert not_evaluated.base is alone.base is None
    assert alone.recipe.method == "grpo"


def test_what_holds_no_run_is_refused(tmp_path, runs):
    with pytest.raises(DataError, match="there is no run directory"):
        runs_at([tmp_path / "nope"])
    none = r"is not a run and contains none: a run has metrics\.jsonl or"
    with pytest.raises(DataError, match=none):
        runs_at([tmp_path])
    with pytest.raises(DataError, match="named twice"):
        find_runs([runs, runs / "grpo"])


def test_runs_are_compared_with_what_they_began_with_or_the_run_that_is_named_first(runs):
    base, dph_f, grpo = runs / "base", runs / "dph_f", runs / "grpo"
    assert compared_runs([runs])[0] == [base, dph_f, grpo]
    assert compared_runs([grpo])[0] == [base, grpo]
    assert compared_runs([runs, base])[0] == [base, dph_f, grpo]
    assert compared_runs([grpo, dph_f])[0] == [grpo, dph_f]
    assert compared_runs([base, runs])[0] == [base, dph_f, grpo]


def test_a_run_of_a_directory_that_was_not_evaluated_is_left_out_with_a_note(runs):
    (runs / "dph_f" / "samples.parquet").unlink()
    notes = [f"{runs / 'dph_f'}: not evaluated"]
    assert compared_runs([runs]) == ([runs / "base", runs / "grpo"], notes)
    (runs / "grpo" / "samples.parquet").unlink()
    with pytest.raises(DataError, match=r"no run was evaluated: .*grpo: not evaluated"):
        compared_runs([runs])


def test_a_run_without_a_base_stands_alone_with_a_note(runs):
    (runs / "base" / "evaluation.json").unlink()
    found, (note,) = compared_runs([runs / "grpo"])
    assert found == [runs / "grpo"]
    assert "no evaluation of the initial policy" in note


def test_runs_of_different_initial_policies_ask_for_a_baseline(tmp_path):
    first, second = (make_runs(tmp_path / name, sets=SMALL) for name in "ab")
    samples = second / "base" / "samples.parquet"
    table = pq.read_table(samples)
    write_samples(samples, table, digest="of another model")
    with pytest.raises(DataError, match=rf"policies, {first}/base, {second}/base: name the run"):
        compared_runs([first, second])
    assert compared_runs([first / "base", first, second])[0][0] == first / "base"


def test_a_recipe_that_is_not_valid_is_named_with_its_file_or_left_out(runs):
    recipe = runs / "grpo" / "recipe.toml"
    recipe.write_text(recipe.read_text() + "\n[unknown]\nkey = 1\n")
    with pytest.raises(SettingsError, match=r"grpo/recipe.toml: .*unknown"):
        find_runs([runs])
    of_dph_f, of_grpo = find_runs([runs], any_recipe=True)
    assert of_dph_f.unread_recipe == ""
    assert of_dph_f.recipe.method == "dph_f"
    assert of_grpo.recipe is None
    assert "unknown" in of_grpo.unread_recipe
    assert of_grpo.base.path == runs / "base"
