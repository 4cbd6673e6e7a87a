import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fake_vllm
from dph._base.files.parts import TableParts
from dph.errors import DataError, SettingsError
from dph.model.policies import load_policy
from dph.recipe import VLLMSettings, resolve_recipe
from dph.runs.prepare import prepare
from dph.runs.presample.pool import load_pool
from loop_parts import FORWARD
from run_stages import evaluated, presampled, ran, trained
from scored_completions import score_completions

VLLM = {"engine": "vllm"}


@pytest.fixture
def vllm(monkeypatch):
    return fake_vllm.install(monkeypatch)


def shut_down(vllm):
    return [llm.llm_engine.aborted for llm in vllm.started] == [["shutdown"]] * len(vllm.started)


def test_a_pool_that_vllm_drew_has_the_training_forwards_log_probs(make_recipe, tmp_path, vllm):
    recipe = make_recipe(sampling=VLLM | {"temperature": 0.8}, vllm={"memory": 0.4})
    assert presampled(recipe, tmp_path / "run").source.engine == "vllm"
    with prepare(recipe, tmp_path / "run", stage="presample") as plan:
        model = load_policy(Path(recipe.model.path), plan.recipe.model, initial=plan.initial)
    kept = load_pool(tmp_path / "run" / "pool").rehearsal
    prompts, answers = [s.prompt_ids for s in kept], [s.completion_ids for s in kept]
    expected = score_completions(model, prompts, answers, **{**FORWARD, "temperature": 0.8})
    assert kept
    for sample, logprobs in zip(kept, expected, strict=True):
        assert sample.ref_logprobs == pytest.approx(logprobs, abs=1e-6)
    assert [llm.options["gpu_memory_utilization"] for llm in vllm.started] == [0.4]
    assert shut_down(vllm)


@pytest.mark.slow
def test_a_whole_run_starts_an_engine_for_each_stage_and_trains_with_torch(
    make_recipe, tmp_path, vllm
):
    sets = {"dev": str(tmp_path / "dev.jsonl"), "again": str(tmp_path / "dev.jsonl")}
    recipe = make_recipe(sampling=VLLM, data={"sets": sets})
    result = ran(recipe, tmp_path / "run")
    assert result.trained.step == 2
    # The pool, the initial policy, the trained one; two sets share an engine.
    assert len(vllm.started) == 3
    assert ran(recipe, tmp_path / "run").evaluation == result.evaluation
    assert len(vllm.started) == 3  # nothing left to draw: none is started
    assert shut_down(vllm)


def test_a_pool_serves_training_whoever_drew_it(make_recipe, tmp_path, vllm):
    first = presampled(make_recipe(sampling=VLLM), tmp_path / "run")
    assert presampled(make_recipe(), tmp_path / "run") == first
    assert trained(make_recipe(), tmp_path / "run").step == 2
    assert len(vllm.started) == 1


@pytest.mark.slow
def test_half_a_pool_is_not_continued_by_another_engine(make_recipe, tmp_path, vllm, monkeypatch):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 8)
    write = TableParts.write

    def killed(parts, index, table):
        if index == 1:
            raise KeyboardInterrupt
        write(parts, index, table)

    with monkeypatch.context() as patch:
        patch.setattr(TableParts, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            presampled(make_recipe(sampling=VLLM), tmp_path / "run")
    assert shut_down(vllm)
    with pytest.raises(DataError, match=r"pool.partial .*\(different engine\); .* or remove it"):
        presampled(make_recipe(), tmp_path / "run")
    done = presampled(make_recipe(sampling=VLLM), tmp_path / "run")
    assert done.source.engine == "vllm"


def test_samples_of_another_engine_are_drawn_again(make_recipe, tmp_path, vllm):
    documents = []
    for sampling in ({}, VLLM, {}):
        evaluated(make_recipe(sampling=sampling), tmp_path / "e")
        documents.append(pq.read_table(tmp_path / "e" / "samples.parquet"))
    assert documents[0] == documents[2] != documents[1]
    assert len(vllm.started) == 1


def test_a_machine_without_vllm_is_told_before_a_model_is_loaded(
    make_recipe, tmp_path, monkeypatch
):
    recipe = make_recipe(sampling=VLLM)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match="needs vLLM, which is not installed"):
        presampled(recipe, tmp_path / "run")
    with pytest.raises(SettingsError, match="needs vLLM, which is not installed"):
        evaluated(recipe, tmp_path / "run", model=Path("never-read"))


def test_the_recipe_in_the_documentation_is_one(tmp_path):
    document = (Path(__file__).parents[2] / "docs/guides/cluster.md").read_text(encoding="utf-8")
    table = tomllib.loads(document.split("## vLLM")[1].split("```toml\n")[1].split("```")[0])
    recipe = resolve_recipe(table | {"data": {"train": str(tmp_path / "p.jsonl")}})
    assert recipe.sampling.engine == "vllm"
    assert recipe.vllm == VLLMSettings()
