"""Pre-sampling and evaluation with vLLM drawing (``fake_vllm``); training stays with torch."""

import json
import logging
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fake_vllm
from dph._base.files.parts import TableParts
from dph.errors import SettingsError
from dph.model.forward.logprobs import score_completions
from dph.model.policies import load_policy
from dph.recipe import VLLMSettings, resolve_recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage

VLLM = {"engine": "vllm"}


@pytest.fixture
def vllm(monkeypatch):
    return fake_vllm.install(monkeypatch)


def shut_down(vllm):
    return [llm.llm_engine.aborted for llm in vllm.started] == [["shutdown"]] * len(vllm.started)


def test_a_pool_that_vllm_drew_has_the_training_forwards_log_probs(make_recipe, tmp_path, vllm):
    recipe = make_recipe(sampling=VLLM | {"temperature": 0.8}, vllm={"memory": 0.4})
    with open_plan(recipe, tmp_path / "run") as plan:
        manifest = presample_stage(plan, Silent())
        model = load_policy(Path(recipe.model.path), plan.recipe.model, initial=plan.initial)
    assert manifest.source.engine == "vllm"
    pool = load_pool(tmp_path / "run" / "pool")
    expected = score_completions(
        model,
        [sample.prompt_ids for sample in pool.rehearsal],
        [sample.completion_ids for sample in pool.rehearsal],
        temperature=0.8,
        pad_id=0,
        token_budget=recipe.train.microbatch_tokens,
        dtype="float32",
    )
    assert pool.rehearsal
    for sample, logprobs in zip(pool.rehearsal, expected, strict=True):
        assert sample.ref_logprobs == pytest.approx(logprobs, abs=1e-6)
    assert [llm.options["gpu_memory_utilization"] for llm in vllm.started] == [0.4]
    assert shut_down(vllm)


def test_a_whole_run_starts_an_engine_for_each_stage_and_trains_with_torch(
    make_recipe, tmp_path, vllm
):
    sets = {"dev": str(tmp_path / "dev.jsonl"), "again": str(tmp_path / "dev.jsonl")}
    recipe = make_recipe(sampling=VLLM, data={"sets": sets})
    with open_plan(recipe, tmp_path / "run") as plan:
        result = run_stages(plan, Silent())
        started = len(vllm.started)
        again = run_stages(plan, Silent())
    assert result.trained.step == 2
    assert again.evaluation == result.evaluation
    assert started == 3  # the pool, the initial policy, the trained one; two sets share an engine
    assert len(vllm.started) == 3  # nothing left to draw: none is started
    assert shut_down(vllm)


def test_a_pool_serves_training_whoever_drew_it(make_recipe, tmp_path, vllm):
    run = tmp_path / "run"
    with open_plan(make_recipe(sampling=VLLM), run) as plan:
        first = presample_stage(plan, Silent())
    with open_plan(make_recipe(), run) as plan:
        assert presample_stage(plan, Silent()) == first
        assert train_stage(plan, Silent()).step == 2
    assert len(vllm.started) == 1


def test_half_a_pool_is_not_continued_by_another_engine(
    make_recipe, tmp_path, vllm, monkeypatch, caplog
):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 8)
    write = TableParts.write

    def killed(parts, index, table):
        if index == 1:
            raise KeyboardInterrupt
        write(parts, index, table)

    monkeypatch.setattr(TableParts, "write", killed)
    with (
        open_plan(make_recipe(sampling=VLLM), tmp_path / "run") as plan,
        pytest.raises(KeyboardInterrupt),
    ):
        presample_stage(plan, Silent())
    assert shut_down(vllm)
    monkeypatch.setattr(TableParts, "write", write)
    with open_plan(make_recipe(), tmp_path / "run") as plan, caplog.at_level(logging.WARNING):
        presample_stage(plan, Silent())
    with open_plan(make_recipe(), tmp_path / "fresh") as plan:
        presample_stage(plan, Silent())
    assert "parts of a job with other settings: removed" in caplog.text
    samples = [pq.read_table(tmp_path / d / "pool" / "samples.parquet") for d in ("run", "fresh")]
    assert samples[0] == samples[1]


def test_samples_of_another_engine_are_drawn_again(make_recipe, tmp_path, vllm):
    documents = []
    for sampling in ({}, VLLM, {}):
        recipe = make_recipe(sampling=sampling)
        with open_plan(recipe, tmp_path / "e") as plan:
            evaluate_stage(plan, tmp_path / "e", Silent(), model=tmp_path / "model")
        documents.append(pq.read_table(tmp_path / "e" / "samples.parquet"))
    assert documents[0] == documents[2] != documents[1]
    assert len(vllm.started) == 1


def test_the_engine_is_no_part_of_a_trainings_identity(make_recipe, tmp_path):
    digests = set()
    for sections in ({}, {"sampling": VLLM, "vllm": {"memory": 0.9}}):
        with open_plan(make_recipe(**sections), tmp_path / "run") as plan:
            digests.add(plan.training_key())
    assert len(digests) == 1


@pytest.mark.parametrize(
    "stage",
    [
        presample_stage,
        lambda plan, progress: evaluate_stage(plan, Path("e"), progress, model=Path("never-read")),
    ],
    ids=["presample", "evaluate"],
)
def test_a_machine_without_vllm_is_told_before_a_model_is_loaded(
    make_recipe, tmp_path, monkeypatch, stage
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with (
        open_plan(make_recipe(sampling=VLLM), tmp_path / "run") as plan,
        pytest.raises(SettingsError, match="needs vLLM, which is not installed"),
    ):
        stage(plan, Silent())


def test_the_recipe_in_the_documentation_is_one(tmp_path):
    document = (Path(__file__).parents[2] / "docs/guides/cluster.md").read_text(encoding="utf-8")
    table = tomllib.loads(document.split("## vLLM")[1].split("```toml\n")[1].split("```")[0])
    recipe = resolve_recipe(table | {"data": {"train": str(tmp_path / "p.jsonl")}})
    assert recipe.sampling.engine == "vllm"
    assert recipe.vllm == VLLMSettings()


def test_the_manifest_says_who_drew(make_recipe, tmp_path):
    with open_plan(make_recipe(), tmp_path / "run") as plan:
        presample_stage(plan, Silent())
    content = json.loads((tmp_path / "run" / "pool" / "manifest.json").read_text())
    assert content["source"]["engine"] == "torch"
