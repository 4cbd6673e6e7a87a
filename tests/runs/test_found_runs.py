import pytest

from dph.errors import DataError
from dph.runs.found_runs import find_runs, runs_at, the_run
from report_runs import make_runs

SMALL = {"in_domain": 2}


@pytest.fixture
def runs(tmp_path):
    return make_runs(tmp_path / "runs", sets=SMALL)


def test_a_directory_of_runs_stands_for_all_but_the_base_which_comes_by_itself(runs):
    assert runs_at([runs]) == [runs / "dph_f", runs / "grpo"]
    assert [one.base for one in find_runs([runs])] == [runs / "base"] * 2
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
    with pytest.raises(
        DataError,
        match=r"is not a run and contains none: a run has "
        r"metrics\.jsonl or",
    ):
        runs_at([tmp_path])
    with pytest.raises(DataError, match="named twice"):
        find_runs([runs, runs / "grpo"])
