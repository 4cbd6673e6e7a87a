import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from dph.errors import DataError, ModelError, SettingsError
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.torch.shared_forward import SharedForward
from tiny_models import FAMILIES, build_model, build_tokenizer

PLAIN = SamplingParameters(max_tokens=12, stop_token_ids=(1, 5, 6, 7, 8))


def ragged_requests(samples=3, count=5):
    numbers = random.Random(0)
    return [
        SampleRequest(
            problem_id=f"p{i}",
            prompt_ids=tuple(numbers.randrange(3, 48) for _ in range(1 + 3 * i)),
            samples=samples,
        )
        for i in range(count)
    ]


def sampler_of(model=None, **limits):
    return TorchSampler(model or build_model(), build_tokenizer(), **limits)


def tokens_of(results):
    return [[c.token_ids for c in drawn] for drawn in results]


def require_logprobs(model, requests, results, *, temperature=1.0, within=1e-4):
    """Compare log-probs with those of a full forward."""
    for request, drawn in zip(requests, results, strict=True):
        for completion in drawn:
            ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
            with torch.no_grad():
                logits = model(input_ids=ids).logits[0].float() / temperature
            table = torch.log_softmax(logits, dim=-1)[len(request.prompt_ids) - 1 : -1]
            expected = table.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0]
            assert completion.logprobs == pytest.approx(expected.tolist(), abs=within)


@pytest.mark.parametrize(
    ("family", "attention", "top_p"),
    [
        *((family, "eager", 0.8) for family in FAMILIES),
        *((family, "sdpa", 1.0) for family in FAMILIES if family not in ("gemma2", "bloom")),
    ],
)
def test_log_probs_equal_those_of_a_full_forward(family, attention, top_p):
    model = build_model(family, attn_implementation=attention)
    parameters = replace(PLAIN, temperature=0.8, top_p=top_p)
    results = sampler_of(model, max_rows=10).sample(ragged_requests(), parameters, seed=0)
    require_logprobs(model, ragged_requests(), results, temperature=0.8)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_that_of_transformers_alone_and_in_a_batch(family):
    model = build_model(family)
    sampler = sampler_of(model)
    greedy = SamplingParameters(max_tokens=10, stop_token_ids=(1,), greedy=True)
    requests = ragged_requests(samples=1)
    together = sampler.sample(requests, greedy, seed=0)
    for request, [completion] in zip(requests, together, strict=True):
        [[alone]] = sampler.sample([request], greedy, seed=1)
        assert alone.token_ids == completion.token_ids
        ids = torch.tensor([request.prompt_ids])
        options = {"attention_mask": torch.ones_like(ids), "do_sample": False}
        theirs = model.generate(input_ids=ids, max_new_tokens=10, **options)
        assert tuple(theirs[0, ids.shape[1] :].tolist()) == completion.token_ids


@pytest.mark.parametrize("family", ["llama_gqa", "bloom"])
def test_tokens_do_not_depend_on_max_rows_order_or_how_the_samples_are_split(family):
    model = build_model(family)
    requests = ragged_requests(samples=4)
    sampler = sampler_of(model)
    whole = sampler.sample(requests, PLAIN, seed=3)
    assert sampler.sample(requests, PLAIN, seed=3) == whole  # to the bit
    for limits in ({"max_rows": 3}, {"max_rows": 7}, {"cache_tokens": 180}):
        sampler = sampler_of(model, **limits)
        backwards = sampler.sample(requests[::-1], PLAIN, seed=3)
        assert tokens_of(backwards)[::-1] == tokens_of(whole)
    halves = ([replace(r, samples=2, first_index=first) for r in requests] for first in (0, 2))
    parts = [sampler.sample(half, PLAIN, seed=3) for half in halves]
    assert [a + b for a, b in zip(*map(tokens_of, parts), strict=True)] == tokens_of(whole)
    assert tokens_of(sampler.sample(requests, PLAIN, seed=4)) != tokens_of(whole)


def test_two_problems_with_one_prompt_draw_their_own_samples_and_no_samples_are_fine():
    sampler = sampler_of()
    requests = [SampleRequest(problem_id=p, prompt_ids=(3, 4), samples=4) for p in "ab"]
    first, second = sampler.sample(requests, PLAIN, seed=0)
    assert [c.problem_id for c in first + second] == ["a"] * 4 + ["b"] * 4
    assert [c.token_ids for c in first] != [c.token_ids for c in second]
    assert isinstance(sampler, Sampler)
    assert sampler.sample([], PLAIN, seed=0) == []
    assert sampler.sample([replace(requests[0], samples=0)], PLAIN, seed=0) == [[]]


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_frequencies_of_the_first_token_match_the_softmax(temperature):
    model = build_model()
    draws, prompt = 4000, (4, 9, 3)
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=(), temperature=temperature)
    request = SampleRequest(problem_id="p", prompt_ids=prompt, samples=draws)
    [drawn] = sampler_of(model, max_rows=1024).sample([request], parameters, seed=0)
    counts = Counter(c.token_ids[0] for c in drawn)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
    expected = (draws * torch.softmax(logits / temperature, dim=0)).tolist()
    common = [token for token, count in enumerate(expected) if count >= 5]
    assert len(common) >= 5
    statistic = sum((counts[t] - expected[t]) ** 2 / expected[t] for t in common)
    # Chi-square: mean df, variance 2 df; five standard deviations above the mean.
    assert statistic < len(common) + 5 * math.sqrt(2 * len(common))


def test_a_stop_token_ends_the_completion_and_is_its_last_token():
    results = sampler_of().sample(ragged_requests(samples=20), PLAIN, seed=0)
    completions = [c for drawn in results for c in drawn]
    stops = set(PLAIN.stop_token_ids)
    assert {c.finished for c in completions} == {True, False}
    for completion in completions:
        assert not stops & set(completion.token_ids[:-1])
        assert completion.finished == (completion.token_ids[-1] in stops)
        assert completion.finished or len(completion.token_ids) == PLAIN.max_tokens
        assert len(completion.logprobs) == len(completion.token_ids)
        assert completion.text.split() == [f"w{i}" for i in completion.token_ids if i > 2]


def test_training_modes_are_restored_and_nothing_requires_grad():
    model = build_model("gpt2", resid_pdrop=0.5).train()
    model.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    sampler = sampler_of(model)
    first = sampler.sample(ragged_requests(), PLAIN, seed=0)
    assert [module.training for module in model.modules()] == before
    assert sampler.sample(ragged_requests(), PLAIN, seed=0) == first
    model(input_ids=torch.tensor([[3, 4]])).logits.sum().backward()


def test_bfloat16_stays_close_to_float32():
    model, requests = build_model(initializer_range=0.1), ragged_requests()
    results = sampler_of(model, dtype="bfloat16").sample(requests, PLAIN, seed=0)
    require_logprobs(model, requests, results, within=0.1)
    assert all(p.dtype is torch.float32 for p in model.parameters())


@pytest.mark.parametrize(
    ("tokens", "stops", "limits", "message"),
    [
        (60, (1,), {}, "'p7': a prompt of 60 .* max_tokens = 12 .* 64"),
        (0, (1,), {}, "'p7' has an empty prompt"),
        (1, (48,), {}, "stop token 48 is not in the vocabulary of 48"),
        (13, (1,), {"cache_tokens": 70}, "13 tokens .* max_tokens = 12 .* cache_tokens = 70"),
    ],
)
def test_requests_that_cannot_be_drawn_are_refused(tokens, stops, limits, message):
    request = SampleRequest(problem_id="p7", prompt_ids=(3,) * tokens, samples=1)
    sampler = sampler_of(build_model("gpt2"), **limits)
    with pytest.raises((SettingsError, DataError), match=message):
        sampler.sample([request], replace(PLAIN, stop_token_ids=stops), seed=0)


def test_an_added_token_that_the_model_lacks_is_refused_in_a_prompt_alone():
    tokenizer, requests = build_tokenizer(), ragged_requests()
    tokenizer.add_tokens(["<image>"])
    sampler = TorchSampler(build_model(), tokenizer)
    assert sampler.sample(requests, PLAIN, seed=0) == sampler_of().sample(requests, PLAIN, seed=0)
    with pytest.raises(ModelError, match="'p1': token 48 of its prompt is not in the vocabulary"):
        sampler.sample([replace(requests[1], prompt_ids=(3, 48))], PLAIN, seed=0)


def test_what_does_not_fit_is_refused():
    encoder, lost = build_model(), build_model()
    encoder.config.is_encoder_decoder = True
    for refusal, model, limits in (
        ("max_rows must be at least 1, got 0", None, {"max_rows": 0}),
        ("got 'float16'", None, {"dtype": "float16"}),
        ("48 tokens, but the model only 20 embeddings", build_model(vocab_size=20), {}),
        ("encoder-decoder", encoder, {}),
    ):
        with pytest.raises((SettingsError, ModelError), match=refusal):
            sampler_of(model, **limits)
    lost.lm_head.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite"):
        sampler_of(lost).sample(ragged_requests(), PLAIN, seed=0)


def test_completions_are_handed_over_as_they_finish():
    seen, counts = [], []
    results = sampler_of(max_rows=6).sample(
        ragged_requests(),
        PLAIN,
        seed=0,
        on_completion=lambda position, completion: seen.append((position, completion)),
        on_progress=lambda _: counts.append(len(seen)),
    )
    drawn = [(position, c) for position, group in enumerate(results) for c in group]
    assert sorted(seen, key=drawn.index) == drawn
    assert len(counts) > 3
    assert counts[-1] == len(drawn)


def test_a_model_that_cannot_share_is_told_of_once(caplog):
    sampler = sampler_of(build_model("mistral_window"))
    for seed in (0, 1):
        sampler.sample(ragged_requests(), PLAIN, seed=seed)
    [said] = caplog.messages
    assert said.startswith("MistralForCausalLM: prompts are not shared in sampling: a row may have")
    assert said.endswith("25 tokens, a layer attends to the last 5")


def test_a_short_prompt_draws_the_same_alone_and_beside_others():
    sampler = sampler_of()
    requests = ragged_requests(samples=8)
    together = tokens_of(sampler.sample(requests, PLAIN, seed=3))
    alone = [tokens_of(sampler.sample([request], PLAIN, seed=3))[0] for request in requests]
    assert alone == together


def schema_requests(samples=4):
    """Questions on three schemas, beside others that have nothing in common."""
    numbers = random.Random(1)

    def draw(count):
        return tuple(numbers.randrange(3, 48) for _ in range(count))

    schemas = [draw(n) for n in (150, 70, 20)]
    prompts = [(*schema, *draw(n)) for schema in schemas for n in (9, 3, 30)]
    prompts += [draw(160), schemas[0][:100] + draw(40), prompts[0][:-2], (*prompts[1], 4)]
    return [
        SampleRequest(problem_id=f"p{i}", prompt_ids=prompt, samples=samples)
        for i, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("family", ["llama_gqa", "gpt2"])
def test_what_prompts_begin_with_alike_is_run_once_and_draws_the_same(monkeypatch, family):
    context = {"n_positions" if family == "gpt2" else "max_position_embeddings": 256}
    model, requests = build_model(family, **context), schema_requests()
    parameters = SamplingParameters(max_tokens=6, stop_token_ids=(1, 5))
    counts = []
    prefill = SharedForward._prefill

    def counted(self, cache, part):
        counts.append(len(part.rows.ids))
        return prefill(self, cache, part)

    monkeypatch.setattr(SharedForward, "_prefill", counted)
    sampler = sampler_of(model)
    shared = sampler.sample(requests, parameters, seed=3)
    run = sum(counts[1:])  # the first asks whether the model shares
    prompts = [request.prompt_ids for request in requests]
    met = {prompt[:n] for prompt in prompts for n in range(1, len(prompt) + 1)}
    apart = sum(map(len, prompts))
    assert len(met) <= run < apart / 2
    for max_rows in (4, 10):
        counts.clear()
        again = sampler_of(model, max_rows=max_rows).sample(requests[::-1], parameters, seed=3)
        assert tokens_of(again)[::-1] == tokens_of(shared)
        assert len(met) <= sum(counts[1:]) < apart
    monkeypatch.setitem(SharedForward.__init__.__kwdefaults__, "least_saved", 10**6)
    counts.clear()
    repeated = sampler.sample(requests, parameters, seed=3)
    assert sum(counts) == apart
    assert tokens_of(repeated) == tokens_of(shared)
    for one, other in zip(itertools.chain(*repeated), itertools.chain(*shared), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    require_logprobs(model, requests, [drawn[:1] for drawn in shared])


@pytest.mark.parametrize(
    ("family", "tokens"), [("llama", 17), ("bloom", 21), ("mistral_window", 21)]
)
def test_prompts_are_padded_only_where_they_cannot_be_shared(family, tokens):
    model = build_model(family)
    sampler = sampler_of(model)
    requests = [SampleRequest(problem_id=str(n), prompt_ids=(5,) * n, samples=2) for n in (7, 6, 4)]
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=())
    sampler.sample(requests, parameters, seed=0)  # asks whether the model shares prompts
    passes = []
    model.register_forward_pre_hook(
        lambda _m, _a, options: passes.append(options["input_ids"].numel()), with_kwargs=True
    )
    sampler.sample(requests, parameters, seed=0)
    assert passes == [tokens]
