import pytest

from dph.errors import CheckpointError, DataError, PoolError
from dph.model.sampler.graded import GradedSampler
from dph.runs.prepare import prepare
from dph.runs.presample.pool import only_maker
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from run_stages import presampled, ran, trained


class Told(Silent):
    """Keeps what a stage says."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


@pytest.fixture
def presample(make_recipe, tmp_path):
    """Pre-sample the letter task with some settings of ``[presample]``."""

    def run(directory="run", *, progress=None, **settings):
        recipe = make_recipe(presample=settings)
        with prepare(recipe, tmp_path / directory, stage="presample") as job:
            return presample_stage(job, progress or Silent())

    return run


@pytest.fixture
def train(make_recipe, tmp_path):
    """Train on the letter task with some settings of ``[presample]``."""
    return lambda **sections: trained(make_recipe(**sections), tmp_path / "run")


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_pool_that_is_being_written_is_refused_by_name_and_its_neighbour_is_made(
    presample, tmp_path
):
    with only_maker(tmp_path / "pools" / "a"):
        assert presample(pool=tmp_path / "pools" / "b").counts.prompts == 24
        with pytest.raises(DataError, match=r"is making the pool .*pools/a;"):
            presample(pool=tmp_path / "pools" / "a")
    assert not (tmp_path / "pools" / "a").exists()


def test_another_threshold_splits_a_finished_pool_again_and_draws_nothing(
    presample, tmp_path, monkeypatch
):
    presample(threshold=1)
    first = files_of(tmp_path / "run" / "pool")
    presample("fresh", threshold=3)
    monkeypatch.setattr(GradedSampler, "__call__", lambda *_, **__: pytest.fail("drawn"))
    told = Told()
    again = presample(threshold=3, progress=told)
    assert again.rule.threshold == 3
    assert files_of(tmp_path / "run" / "pool") == files_of(tmp_path / "fresh" / "pool") != first
    (line,) = told.lines
    assert "threshold 1 -> 3" in line
    assert "nothing is drawn" in line
    presample(threshold=1)
    assert files_of(tmp_path / "run" / "pool") == first


def test_an_unfinished_pool_goes_on_with_another_threshold(presample, tmp_path, monkeypatch):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 5)
    presample("fresh", threshold=3)
    draw, calls = GradedSampler.__call__, []

    def killed(sampler, problems, **options):
        calls.append(len(problems))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return draw(sampler, problems, **options)

    monkeypatch.setattr(GradedSampler, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        presample(threshold=1)
    presample(threshold=3)
    assert calls == [5, 5, 5, 5, 5, 4]  # killed in the third, which comes again; no piece twice
    assert files_of(tmp_path / "run" / "pool") == files_of(tmp_path / "fresh" / "pool")


def test_a_pool_that_a_run_was_trained_on_is_not_split_again(presample, train, tmp_path):
    presample(threshold=1)
    train(presample={"threshold": 1})
    before = files_of(tmp_path / "run" / "pool")
    for directory, pool in (("run", None), ("other", tmp_path / "run" / "pool")):
        with pytest.raises(PoolError, match="a run was trained on the pool"):
            presample(directory, threshold=2, pool=pool)
    assert files_of(tmp_path / "run" / "pool") == before
    assert train(presample={"threshold": 1}, train={"steps": 3}).step == 3


def test_a_run_never_goes_on_with_a_pool_that_was_split_again(presample, train, tmp_path):
    pool = tmp_path / "shared"
    presample(threshold=1, pool=pool)
    train(presample={"threshold": 1, "pool": pool})
    presample("other", threshold=2, pool=pool)
    longer = {"steps": 3}
    with pytest.raises(PoolError, match=r"threshold was 2, this run has 1.*`dph presample`"):
        train(presample={"threshold": 1, "pool": pool}, train=longer)
    with pytest.raises(CheckpointError, match=r"presample.threshold was 1, now 2"):
        train(presample={"threshold": 2, "pool": pool}, train=longer)


def test_a_whole_run_splits_no_pool_again_that_others_may_share(make_recipe, presample, tmp_path):
    pool = tmp_path / "shared"
    presample(threshold=1, pool=pool)
    before = files_of(pool)
    with pytest.raises(PoolError, match="threshold was 1, this run has 2"):
        ran(make_recipe(presample={"threshold": 2, "pool": pool}), tmp_path / "run")
    assert files_of(pool) == before


def test_training_seeds_share_one_pool(make_recipe, tmp_path):
    pool = tmp_path / "shared"
    weights, made = set(), set()
    for seed in (1, 2):
        shared = {"pool": pool, "seed": 5}
        recipe = make_recipe(presample=shared).model_copy(update={"seed": seed})
        assert presampled(recipe, tmp_path / f"run{seed}").source.seed == 5
        made.add((pool / "manifest.json").stat().st_mtime_ns)
        checkpoint = trained(recipe, tmp_path / f"run{seed}").checkpoint
        weights.add((checkpoint / "model.safetensors").read_bytes())
    assert (len(made), len(weights)) == (1, 2)


def test_naming_the_seed_that_holds_anyhow_is_no_other_run(presample, train):
    presample(threshold=1)
    train(presample={"threshold": 1})
    assert train(presample={"threshold": 1, "seed": 0}, train={"steps": 3}).step == 3
