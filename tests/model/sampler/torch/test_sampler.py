import itertools
import math
import random
from collections import Counter

import pytest
import torch

from dph.errors import DataError, ModelError, SettingsError
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.model.sampler.torch.own_forward import RepeatedForward
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.torch.shared_forward import SharedForward
from tiny_models import FAMILIES, build_model, build_tokenizer

NO_SDPA = ["gemma2", "bloom"]
"""Their attention adds to the logits inside: softcapping, ALiBi."""
PLAIN = SamplingParameters(max_tokens=12, stop_token_ids=(1, 5, 6, 7, 8))


@pytest.fixture
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def make_model():
    return build_model


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


def tokens_of(results):
    return [[c.token_ids for c in drawn] for drawn in results]


@torch.no_grad()
def full_forward_logprobs(model, request, completion, temperature):
    ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
    table = torch.log_softmax(model(input_ids=ids).logits[0].float() / temperature, dim=-1)
    first = len(request.prompt_ids)
    return [table[first + k - 1, token].item() for k, token in enumerate(completion.token_ids)]


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        *((family, "eager") for family in FAMILIES),
        *((family, "sdpa") for family in FAMILIES if family not in NO_SDPA),
    ],
)
@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_log_probs_equal_those_of_a_full_forward(make_model, tokenizer, family, attention, top_p):
    model = make_model(family, attn_implementation=attention)
    parameters = SamplingParameters(
        max_tokens=12, stop_token_ids=(1, 5, 6, 7, 8), temperature=0.8, top_p=top_p
    )
    requests = ragged_requests()
    results = TorchSampler(model, tokenizer, max_rows=10).sample(requests, parameters, seed=0)
    for request, drawn in zip(requests, results, strict=True):
        for completion in drawn:
            expected = full_forward_logprobs(model, request, completion, 0.8)
            assert completion.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_that_of_transformers_alone_and_in_a_batch(make_model, tokenizer, family):
    model = make_model(family)
    sampler = TorchSampler(model, tokenizer)
    greedy = SamplingParameters(max_tokens=10, stop_token_ids=(1,), greedy=True)
    requests = ragged_requests(samples=1)
    together = sampler.sample(requests, greedy, seed=0)
    for request, [completion] in zip(requests, together, strict=True):
        [[alone]] = sampler.sample([request], greedy, seed=1)
        assert alone.token_ids == completion.token_ids
        ids = torch.tensor([request.prompt_ids])
        theirs = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=10,
        )
        assert tuple(theirs[0, ids.shape[1] :].tolist()) == completion.token_ids


@pytest.mark.parametrize("family", ["llama_gqa", "gpt2", "mistral_window"])
def test_tokens_do_not_depend_on_max_rows_order_or_how_the_samples_are_split(
    make_model, tokenizer, family
):
    model = make_model(family)
    requests = ragged_requests(samples=8)
    whole = TorchSampler(model, tokenizer).sample(requests, PLAIN, seed=3)
    for max_rows in (1, 3, 8, 17):
        again = TorchSampler(model, tokenizer, max_rows=max_rows).sample(requests, PLAIN, seed=3)
        assert tokens_of(again) == tokens_of(whole)
    sampler = TorchSampler(model, tokenizer, max_rows=11)
    backwards = sampler.sample(requests[::-1], PLAIN, seed=3)
    assert tokens_of(backwards)[::-1] == tokens_of(whole)
    parts = [
        sampler.sample(
            [
                SampleRequest(
                    problem_id=r.problem_id, prompt_ids=r.prompt_ids, samples=4, first_index=first
                )
                for r in requests
            ],
            PLAIN,
            seed=3,
        )
        for first in (0, 4)
    ]
    assert [a + b for a, b in zip(*map(tokens_of, parts), strict=True)] == tokens_of(whole)
    assert tokens_of(sampler.sample(requests, PLAIN, seed=4)) != tokens_of(whole)


def test_batching_changes_less_than_one_token_in_ten_thousand(make_model, tokenizer):
    # The same was measured once at half a million tokens of a larger model.
    model = make_model("llama_gqa")
    requests = ragged_requests(samples=100, count=16)
    parameters = SamplingParameters(max_tokens=16, stop_token_ids=(1,))
    whole = TorchSampler(model, tokenizer).sample(requests, parameters, seed=3)
    for max_rows in (60, 90):
        sampler = TorchSampler(model, tokenizer, max_rows=max_rows)
        again = sampler.sample(requests[::-1], parameters, seed=3)[::-1]
        compared = differing = 0
        for one, other in zip(itertools.chain(*whole), itertools.chain(*again), strict=True):
            pairs = zip(one.token_ids, other.token_ids, strict=False)
            first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            differing += first is not None
            compared += len(one.token_ids) if first is None else first + 1
        assert compared > 20000
        assert differing <= compared * 1e-4


def test_the_same_requests_give_bit_identical_results(make_model, tokenizer):
    sampler = TorchSampler(make_model(), tokenizer, max_rows=7)
    first = sampler.sample(ragged_requests(), PLAIN, seed=0)
    assert sampler.sample(ragged_requests(), PLAIN, seed=0) == first


def test_two_problems_with_one_prompt_draw_their_own_samples(make_model, tokenizer):
    requests = [SampleRequest(problem_id=p, prompt_ids=(3, 4), samples=4) for p in "ab"]
    first, second = TorchSampler(make_model(), tokenizer).sample(requests, PLAIN, seed=0)
    assert [c.problem_id for c in first + second] == ["a"] * 4 + ["b"] * 4
    assert [c.token_ids for c in first] != [c.token_ids for c in second]


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_frequencies_of_the_first_token_match_the_softmax(make_model, tokenizer, temperature):
    model = make_model()
    draws, prompt = 4000, (4, 9, 3)
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=(), temperature=temperature)
    request = SampleRequest(problem_id="p", prompt_ids=prompt, samples=draws)
    [drawn] = TorchSampler(model, tokenizer, max_rows=1024).sample([request], parameters, seed=0)
    counts = Counter(c.token_ids[0] for c in drawn)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
    expected = (draws * torch.softmax(logits / temperature, dim=0)).tolist()
    common = [token for token, count in enumerate(expected) if count >= 5]
    assert len(common) >= 5
    statistic = sum((counts[t] - expected[t]) ** 2 / expected[t] for t in common)
    # Chi-square: mean df, variance 2 df; five standard deviations above the mean.
    assert statistic < len(common) + 5 * math.sqrt(2 * len(common))


def test_top_p_never_leaves_the_nucleus(make_model, tokenizer):
    model = make_model()
    parameters = SamplingParameters(max_tokens=6, stop_token_ids=(), top_p=0.5)
    requests = ragged_requests(samples=20)
    results = TorchSampler(model, tokenizer).sample(requests, parameters, seed=0)
    for request, drawn in zip(requests, results, strict=True):
        for completion in drawn:
            ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
            with torch.no_grad():
                probabilities = torch.softmax(model(input_ids=ids).logits[0], dim=-1)
            for k, token in enumerate(completion.token_ids):
                row = probabilities[len(request.prompt_ids) + k - 1]
                assert row[row > row[token] + 1e-5].sum() < 0.5 + 1e-5


def test_a_stop_token_ends_the_completion_and_is_its_last_token(make_model, tokenizer):
    results = TorchSampler(make_model(), tokenizer).sample(
        ragged_requests(samples=20), PLAIN, seed=0
    )
    completions = [c for drawn in results for c in drawn]
    stops = set(PLAIN.stop_token_ids)
    assert {c.finished for c in completions} == {True, False}
    for completion in completions:
        assert not stops & set(completion.token_ids[:-1])
        assert completion.finished == (completion.token_ids[-1] in stops)
        assert completion.finished or len(completion.token_ids) == PLAIN.max_tokens
        assert len(completion.logprobs) == len(completion.token_ids)
        assert completion.text.split() == [f"w{i}" for i in completion.token_ids if i > 2]


def test_stopping_does_not_change_the_tokens_before_the_stop(make_model, tokenizer):
    sampler = TorchSampler(make_model(), tokenizer)
    free = SamplingParameters(max_tokens=12, stop_token_ids=())
    requests = ragged_requests(samples=8)
    for long, short in zip(
        sampler.sample(requests, free, seed=0), sampler.sample(requests, PLAIN, seed=0), strict=True
    ):
        for a, b in zip(long, short, strict=True):
            assert a.token_ids[: len(b.token_ids)] == b.token_ids


def test_progress_adds_up_to_the_number_of_completions(make_model, tokenizer):
    counts = []
    TorchSampler(make_model(), tokenizer, max_rows=6).sample(
        ragged_requests(), PLAIN, seed=0, on_progress=counts.append
    )
    assert sum(counts) == 15
    assert min(counts) >= 1


def test_training_modes_are_restored_and_nothing_requires_grad(make_model, tokenizer):
    model = make_model("gpt2", resid_pdrop=0.5).train()
    model.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    sampler = TorchSampler(model, tokenizer)
    first = sampler.sample(ragged_requests(), PLAIN, seed=0)
    assert [module.training for module in model.modules()] == before
    assert sampler.sample(ragged_requests(), PLAIN, seed=0) == first
    model(input_ids=torch.tensor([[3, 4]])).logits.sum().backward()


def test_bfloat16_stays_close_to_float32(make_model, tokenizer):
    model = make_model(initializer_range=0.1)
    requests = ragged_requests()
    results = TorchSampler(model, tokenizer, dtype="bfloat16").sample(requests, PLAIN, seed=0)
    for request, drawn in zip(requests, results, strict=True):
        for completion in drawn:
            expected = full_forward_logprobs(model, request, completion, 1.0)
            assert completion.logprobs == pytest.approx(expected, abs=0.1)
    assert all(p.dtype is torch.float32 for p in model.parameters())


def test_no_requests_and_no_samples_are_fine(make_model, tokenizer):
    sampler = TorchSampler(make_model(), tokenizer)
    assert isinstance(sampler, Sampler)
    assert sampler.sample([], PLAIN, seed=0) == []
    empty = SampleRequest(problem_id="p", prompt_ids=(3,), samples=0)
    assert sampler.sample([empty], PLAIN, seed=0) == [[]]


def test_a_prompt_that_leaves_no_room_is_refused_with_both_lengths(make_model, tokenizer):
    request = SampleRequest(problem_id="p7", prompt_ids=(3,) * 60, samples=1)
    with pytest.raises(SettingsError, match=r"'p7': a prompt of 60 .* max_tokens = 12 .* 64"):
        TorchSampler(make_model("gpt2"), tokenizer).sample([request], PLAIN, seed=0)


def test_an_empty_prompt_is_refused(make_model, tokenizer):
    request = SampleRequest(problem_id="p7", prompt_ids=(), samples=1)
    with pytest.raises(DataError, match="'p7' has an empty prompt"):
        TorchSampler(make_model(), tokenizer).sample([request], PLAIN, seed=0)


def test_a_stop_token_outside_the_vocabulary_is_refused(make_model, tokenizer):
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=(48,))
    with pytest.raises(SettingsError, match="stop token 48 is not in the vocabulary of 48"):
        TorchSampler(make_model(), tokenizer).sample(ragged_requests(), parameters, seed=0)


def test_broken_weights_are_reported(make_model, tokenizer):
    model = make_model()
    model.lm_head.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite"):
        TorchSampler(model, tokenizer).sample(ragged_requests(), PLAIN, seed=0)


def test_what_does_not_fit_is_refused_at_construction(make_model, tokenizer):
    with pytest.raises(SettingsError, match="max_rows must be at least 1, got 0"):
        TorchSampler(make_model(), tokenizer, max_rows=0)
    with pytest.raises(SettingsError, match="got 'float16'"):
        TorchSampler(make_model(), tokenizer, dtype="float16")
    with pytest.raises(ModelError, match="48 tokens, but the model only 20 embeddings"):
        TorchSampler(make_model(vocab_size=20), tokenizer)
    model = make_model()
    model.config.is_encoder_decoder = True
    with pytest.raises(ModelError, match="encoder-decoder"):
        TorchSampler(model, tokenizer)


def test_completions_are_handed_over_as_they_finish(make_model, tokenizer):
    seen, counts = [], []
    sampler = TorchSampler(make_model(), tokenizer, max_rows=6)
    assert isinstance(sampler, Sampler)
    requests = ragged_requests()
    results = sampler.sample(
        requests,
        PLAIN,
        seed=0,
        on_completion=lambda position, completion: seen.append((position, completion)),
        on_progress=lambda _: counts.append(len(seen)),
    )
    drawn = [(position, c) for position, group in enumerate(results) for c in group]
    assert sorted(seen, key=drawn.index) == drawn
    assert len(counts) > 3
    assert counts[-1] == len(drawn)


@pytest.mark.parametrize("family", ["llama", "bloom"])
def test_tokens_do_not_depend_on_the_size_of_the_cache(make_model, tokenizer, family):
    model, requests = make_model(family), ragged_requests()
    whole = TorchSampler(model, tokenizer).sample(requests, PLAIN, seed=1)
    small = TorchSampler(model, tokenizer, cache_tokens=180).sample(requests, PLAIN, seed=1)
    assert tokens_of(small) == tokens_of(whole)


def test_a_model_that_cannot_share_is_told_of_once(make_model, tokenizer, caplog):
    sampler = TorchSampler(make_model("mistral_window"), tokenizer)
    for seed in (0, 1):
        sampler.sample(ragged_requests(), PLAIN, seed=seed)
    assert caplog.messages == [
        "MistralForCausalLM: prompts are not shared in sampling: a row may have 25 tokens, a layer "
        "attends to the last 5"
    ]


@pytest.mark.parametrize(
    ("prompts", "tokens", "samples", "limits", "expected"),
    [
        (1, 64, 4, {}, RepeatedForward),
        (1, 65, 4, {}, SharedForward),
        (2, 30, 4, {}, SharedForward),
        (1, 30, 4, {"max_rows": 3}, SharedForward),
        (1, 30, 4, {"cache_tokens": 4 * (64 + 12) - 1}, SharedForward),
        (1, 30, 4, {"cache_tokens": 4 * (64 + 12)}, RepeatedForward),
    ],
)
def test_one_short_prompt_alone_has_the_cache_of_transformers(
    make_model, tokenizer, prompts, tokens, samples, limits, expected
):
    sampler = TorchSampler(make_model(max_position_embeddings=96), tokenizer, **limits)
    requests = [
        SampleRequest(problem_id=str(i), prompt_ids=(3 + i,) * tokens, samples=samples)
        for i in range(prompts)
    ]
    with torch.no_grad():
        assert type(sampler._forward(requests, PLAIN, sampler._limit(PLAIN))) is expected


def test_a_short_prompt_draws_the_same_alone_and_beside_others(make_model, tokenizer):
    sampler = TorchSampler(make_model(), tokenizer)
    requests = ragged_requests(samples=16)
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


@pytest.mark.parametrize("family", ["llama_gqa", "gpt2", "gemma2"])
def test_what_prompts_begin_with_alike_is_run_once_and_draws_the_same(
    make_model, tokenizer, monkeypatch, family
):
    context = {"n_positions" if family == "gpt2" else "max_position_embeddings": 256}
    window = {"sliding_window": 256} if family == "gemma2" else {}
    model, requests = make_model(family, **context, **window), schema_requests()
    parameters = SamplingParameters(max_tokens=6, stop_token_ids=(1, 5))
    counts = []
    prefill = SharedForward._prefill

    def counted(self, cache, part):
        counts.append(len(part.rows.ids))
        return prefill(self, cache, part)

    monkeypatch.setattr(SharedForward, "_prefill", counted)
    sampler = TorchSampler(model, tokenizer)
    shared = sampler.sample(requests, parameters, seed=3)
    run = sum(counts[1:])  # the first asks whether the model shares
    prompts = [request.prompt_ids for request in requests]
    met = {prompt[:n] for prompt in prompts for n in range(1, len(prompt) + 1)}
    apart = sum(map(len, prompts))
    assert len(met) <= run < apart / 2
    for max_rows in (4, 10):
        counts.clear()
        again = TorchSampler(model, tokenizer, max_rows=max_rows).sample(
            requests[::-1], parameters, seed=3
        )[::-1]
        assert tokens_of(again) == tokens_of(shared)
        assert len(met) <= sum(counts[1:]) < apart
    monkeypatch.setitem(SharedForward.__init__.__kwdefaults__, "least_saved", 10**6)
    counts.clear()
    repeated = sampler.sample(requests, parameters, seed=3)
    assert sum(counts) == apart
    assert tokens_of(repeated) == tokens_of(shared)
    for one, other in zip(itertools.chain(*repeated), itertools.chain(*shared), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    for request, drawn in zip(requests, shared, strict=True):
        expected = full_forward_logprobs(model, request, drawn[0], 1.0)
        assert drawn[0].logprobs == pytest.approx(expected, abs=1e-4)


def test_a_prompt_that_does_not_fit_into_the_cache_is_refused(make_model, tokenizer):
    sampler = TorchSampler(make_model(), tokenizer, cache_tokens=70)
    with pytest.raises(SettingsError, match=r"13 tokens .* max_tokens = 12 .* cache_tokens = 70"):
        sampler.sample(ragged_requests(), PLAIN, seed=0)


@pytest.mark.parametrize(
    ("family", "tokens"), [("llama", 17), ("bloom", 21), ("mistral_window", 21)]
)
def test_prompts_are_padded_only_where_they_cannot_be_shared(make_model, tokenizer, family, tokens):
    model = make_model(family)
    sampler = TorchSampler(model, tokenizer)
    requests = [SampleRequest(problem_id=str(n), prompt_ids=(5,) * n, samples=2) for n in (7, 6, 4)]
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=())
    sampler.sample(requests, parameters, seed=0)  # asks whether the model shares prompts
    passes = []
    model.register_forward_pre_hook(
        lambda _m, _a, options: passes.append(options["input_ids"].numel()), with_kwargs=True
    )
    sampler.sample(requests, parameters, seed=0)
    assert passes == [tokens]
