"""Stages on a cluster: with something in the place of Ray, and with Ray itself where it is.

Ray is in the environment of verl alone: `make test-verl` runs this file there.
"""

import importlib.util
import json

import pytest
from tokenizers import Tokenizer, models

from corpus.tests.test_steps import step_of
from dph._base.files import make_directory
from dph._processes.jobs.cores import RayJobs, connected_ray
from dph.errors import StageError
from dph_corpus.dedup.run import dedup
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.mix import Mixture, mix
from dph_corpus.running import do_step, run_steps
from dph_corpus.settings import PRESETS
from dph_corpus.stage import StageSpec
from dph_corpus.stage_run import run_stage
from dph_corpus.token_shards import tokenize
from fake_ray import FakeRay


def run(steps, directory, jobs):
    return run_steps(steps, directory / "notes", workers=jobs)


def test_steps_of_a_cluster_are_noted_and_not_done_again(tmp_path):
    ray = FakeRay()
    jobs = RayJobs(2, ray, do_step)
    steps = [step_of(tmp_path, name) for name in "abc"]
    answers = run(steps, tmp_path, jobs)
    assert [answer["word"] for answer in answers] == ["text"] * 3
    assert run(steps, tmp_path, jobs) == answers
    assert len(ray.results) == 3


def test_a_step_that_fails_there_ends_the_others(tmp_path):
    ray = FakeRay()
    steps = [step_of(tmp_path, "bad", word="raise"), step_of(tmp_path, "good")]
    with pytest.raises(StageError, match="bad: error: ArithmeticError: bad"):
        run(steps, tmp_path, RayJobs(2, ray, do_step))
    assert ray.cancelled == [("ref-1", True)]


def test_files_that_are_not_seen_here_are_told(tmp_path):
    jobs = RayJobs(2, FakeRay(), lambda _payload: None)
    with pytest.raises(StageError, match="every machine of the cluster must be able to write"):
        run([step_of(tmp_path, "a")], tmp_path, jobs)


def stages(directory, source, workers):
    """Every way in which stages are cut into steps, without the packages of the extra."""
    raw = ingest(plan([f"input={source}"]), directory / "raw", shards=3, workers=workers)
    unique = dedup(raw, directory / "unique", nearness=PRESETS["exact"], shards=2, workers=workers)
    spec = StageSpec(name="shout", entry="small_corpora:Lengths", settings={"longest": 6})
    loud = run_stage(spec, unique, directory / "loud", workers=workers)
    mixture = Mixture(budget=120, shares={"a": 2.0, "b": 1.0})
    mix({"a": loud, "b": raw}, directory / "mixed", mixture=mixture, shards=2, workers=workers)
    place = make_directory(source.parent / "words")
    words = Tokenizer(models.WordLevel({"text": 0, "end": 1}, unk_token="text"))
    words.save(str(place / "tokenizer.json"))
    given = {"tokenizer": place, "form": "datatrove", "end": "end"}
    tokenize(raw, directory / "tokens", workers=workers, **given)


def files(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not {".done", ".lock"} & {path.name, path.parent.name}
    }


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: `make test-verl` runs this"
)
def test_two_workers_of_ray_write_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = connected_ray()
    try:
        rows = [{"path": f"{n}.txt", "text": f"text {n % 30}"} for n in range(40)]
        source = tmp_path / "rows.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        stages(tmp_path / "here", source, 1)
        stages(tmp_path / "there", source, RayJobs(2, ray, do_step))
    finally:
        ray.shutdown()
    assert len(files(tmp_path / "here")) > 12
    assert files(tmp_path / "there") == files(tmp_path / "here")
