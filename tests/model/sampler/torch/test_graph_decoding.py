"""Decoding in place, on a device that counts: its tokens, launches, captures and room."""

import logging
from collections import Counter

import pytest
import torch

from architectures import ARCHITECTURES, attention_of, save_architecture
from counting_device import CountingDevice
from dph.errors import ModelError, SettingsError
from dph.model.loading import load_model
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch import rows_in_place
from dph.model.sampler.torch.rows_in_place import PREFILL_TOKENS, RowsInPlace
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.torch.waves import Room, capacity_of, room_in_memory
from tiny_models import build_model, build_tokenizer

STOPS = (1, 5, 6, 7, 8)
STEM = tuple(3 + i % 40 for i in range(30))
PROMPTS = [(*STEM, 9, 8), (*STEM, 10), (4, 5, 6), (*STEM[:20], 11, 12), (7,) * 25, (3,)]


def requests_of(samples, prompts=PROMPTS):
    return [
        SampleRequest(problem_id=f"p{i}", prompt_ids=prompt, samples=samples + i % 3)
        for i, prompt in enumerate(prompts)
    ]


def model_of(family="llama_gqa"):
    name = "n_positions" if family == "gpt2" else "max_position_embeddings"
    return build_model(family, **{name: 128})


def plain(family, requests, parameters, **limits):
    sampler = TorchSampler(model_of(family), build_tokenizer(), **limits)
    return sampler.sample(requests, parameters, seed=3)


class InPlace:
    """The sampler on a counting device; flash attention there takes every precision."""

    def __init__(self, monkeypatch, family="llama_gqa", *, flash=True, **limits):
        for module in ("dph.model.forward.packed_attention", rows_in_place.__name__):
            monkeypatch.setattr(
                f"{module}.takes_flash",
                lambda _, value, softcap: flash and value.is_cuda and softcap is None,
            )
        self.events = []
        self.family = family
        for name in ("logits", "admit", "keep"):
            monkeypatch.setattr(RowsInPlace, name, self._noted(name, getattr(RowsInPlace, name)))
        self.device = CountingDevice(exact=True, where=False)
        with self.device:
            model = self.device.move(model_of(family))
            self.sampler = TorchSampler(model, build_tokenizer(), **limits)

    def _noted(self, name, call):
        def noted(rows, *args, **kwargs):
            found = call(rows, *args, **kwargs)
            self.events.append((name, rows.rows))
            return found

        return noted

    def sample(self, requests, parameters):
        with self.device, self.device.counting("sampling"):
            self.sampler.sample(requests[:1], parameters, seed=0)  # asks whether the model shares
            self.events.clear()
            return self.sampler.sample(requests, parameters, seed=3)

    def require_as_before(self, requests, parameters):
        """Draw in place and step by step; the completions."""
        wanted = plain(self.family, requests, parameters)
        require_same(self.sample(requests, parameters), wanted)
        return wanted

    def steps(self):
        """Forward passes in Python by their numbers of rows."""
        return Counter(rows for name, rows in self.events if name == "logits")


def parameters_of(max_tokens, stops=STOPS, **others):
    return SamplingParameters(max_tokens=max_tokens, stop_token_ids=stops, **others)


def require_same(found, wanted):
    for group, others in zip(found, wanted, strict=True):
        for one, other in zip(group, others, strict=True):
            assert one.token_ids == other.token_ids
            assert one.finished == other.finished
            assert one.text == other.text
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize(("family", "temperature"), [("llama_gqa", 0.7), ("gpt2", 1.0)])
def test_completions_are_those_of_decoding_step_by_step(monkeypatch, family, temperature):
    in_place = InPlace(monkeypatch, family)
    drawn = in_place.require_as_before(requests_of(4), parameters_of(50, temperature=temperature))
    lengths = [len(c.token_ids) for group in drawn for c in group]
    assert min(lengths) < 3 < 20 < max(lengths)
    # One pass to warm up and one to capture for each number of rows.
    assert 1 < len(in_place.steps()) < 6
    assert max(in_place.steps().values()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_draws_the_same_in_place(monkeypatch, caplog, tmp_path, name):
    save_architecture(name, tmp_path)
    model = load_model(tmp_path, device="cpu", attention=attention_of(name))
    monkeypatch.setitem(globals(), "model_of", lambda _family: model)
    wanted = plain(name, requests_of(4), parameters_of(20))  # before the model moves
    require_same(InPlace(monkeypatch, name).sample(requests_of(4), parameters_of(20)), wanted)
    refused = "a token is not one launch in sampling" in caplog.text
    assert refused == ("soft caps" in name or "4 tokens" in name)


def test_greedy_and_a_nucleus_draw_as_before_and_the_nucleus_is_told_of_once(monkeypatch, caplog):
    in_place = InPlace(monkeypatch)
    for also in ({"greedy": True}, {"top_p": 0.8}, {"top_p": 0.7}):
        in_place.require_as_before(requests_of(1), parameters_of(8, **also))
        assert (max(in_place.steps().values()) == 2) is ("top_p" not in also)
    assert caplog.messages == [
        "LlamaForCausalLM: a token is not one launch in sampling: a nucleus (top_p < 1) waits for "
        "the device"
    ]


@pytest.mark.parametrize("limits", [{"max_rows": 9, "cache_tokens": 500}, {"cache_tokens": 110}])
def test_rows_start_where_others_have_left(monkeypatch, limits):
    in_place = InPlace(monkeypatch, **limits)
    in_place.require_as_before(requests_of(2), parameters_of(12))
    starts = [rows for name, rows in in_place.events if name == "admit"]
    assert len(starts) > 2
    assert max(starts) <= limits.get("max_rows", 200)
    # Rows that start in the places of others need no graph of their own.
    assert max(in_place.steps().values()) == 2


def test_rows_that_end_with_their_first_token_take_no_step(monkeypatch):
    in_place = InPlace(monkeypatch)
    for parameters in (parameters_of(1, ()), parameters_of(9, tuple(range(48)))):
        drawn = in_place.sample(requests_of(3), parameters)
        assert all(len(c.token_ids) == 1 for group in drawn for c in group)
        assert not in_place.steps()
    none = [SampleRequest(problem_id="p", prompt_ids=(3,), samples=0)]
    with in_place.device:
        assert in_place.sampler.sample([], parameters, seed=0) == []
        assert in_place.sampler.sample(none, parameters, seed=0) == [[]]


def test_a_token_is_one_launch_whatever_the_rows_and_their_age(monkeypatch):
    in_place = InPlace(monkeypatch)
    launches = []
    run = rows_in_place.CapturedSteps.run

    def counted(steps, rows):
        with in_place.device.counting("token") as counts:
            before = counts.launches, counts.waits
            run(steps, rows)
            launches.append((counts.launches - before[0], counts.waits - before[1]))

    monkeypatch.setattr(rows_in_place.CapturedSteps, "run", counted)
    in_place.sample(requests_of(2), parameters_of(20, ()))
    launches = launches[-19:]  # the first call asks
    assert launches[1:] == [(1, 1), *[(1, 0)] * 17]  # the capture itself waits once
    assert launches[0][0] > 50


def test_a_prompt_is_run_once_and_what_a_living_one_has_is_not_run(monkeypatch):
    in_place = InPlace(monkeypatch, max_rows=8)
    sizes = []
    run = RowsInPlace._run

    def counted(rows, part, begins):
        sizes.append(len(part.rows.ids))
        return run(rows, part, begins)

    monkeypatch.setattr(RowsInPlace, "_run", counted)
    in_place.sample(requests_of(8, PROMPTS[:1]) * 3, parameters_of(20, (1, 5)))
    # 24 rows of one prompt, of which at most 8 fit: later ones run its last token alone.
    assert sizes[2] == len(PROMPTS[0])
    assert set(sizes[3:]) <= {1, len(PROMPTS[0])}
    assert 1 in sizes[3:]


def test_a_model_whose_step_waits_is_decoded_without_graphs_and_told_of(monkeypatch, caplog):
    in_place = InPlace(monkeypatch)
    layer = in_place.sampler.model.model.layers[1].mlp
    layer.register_forward_hook(lambda _m, _i, out: out * (1 if float(out.sum()) else 2))
    with caplog.at_level(logging.WARNING):
        in_place.require_as_before(requests_of(4), parameters_of(12))
    assert any(
        "LlamaForCausalLM: a token is not one launch in sampling: called a sync" in message
        for message in caplog.messages
    )
    assert in_place.device.sync_mode == 0


def test_a_capture_that_fails_is_told_of_and_the_rows_go_on(monkeypatch, caplog):
    in_place, requests, parameters = InPlace(monkeypatch), requests_of(4), parameters_of(12)

    def refuse(*_, **__):
        raise RuntimeError("operation not permitted\n when stream is capturing")

    with in_place.device:
        monkeypatch.setattr(torch.cuda, "graph", refuse)
        for _ in range(2):
            found = in_place.sampler.sample(requests, parameters, seed=3)
    assert caplog.messages == [
        "LlamaForCausalLM: a token is not one launch in sampling: operation not permitted when "
        "stream is capturing"
    ]
    require_same(found, plain("llama_gqa", requests, parameters))


@pytest.mark.parametrize("family", ["llama_gqa", "bloom"])
def test_attention_that_flash_cannot_compute_is_decoded_step_by_step(monkeypatch, family, caplog):
    in_place = InPlace(monkeypatch, family, flash=False)
    in_place.require_as_before(requests_of(3), parameters_of(9))
    assert "a token is not one launch in sampling" in caplog.text


def test_broken_weights_are_reported(monkeypatch):
    in_place = InPlace(monkeypatch)
    with torch.no_grad(), in_place.device:
        in_place.sampler.model.lm_head.weight.fill_(torch.nan)
        with pytest.raises(ModelError, match="not finite"):
            in_place.sampler.sample(requests_of(2), parameters_of(3, ()), seed=0)


def test_everything_starts_at_once_where_it_fits_else_as_many_rows_as_fit_with_their_prompts():
    requests = requests_of(8)
    rows, tokens = sum(r.samples for r in requests), sum(map(len, PROMPTS))
    for room in (Room(rows=1000, tokens=10**6), Room(rows=rows, tokens=tokens + rows * 50)):
        capacity = capacity_of(requests, room, max_tokens=50)
        assert capacity == (rows, tokens, len(PROMPTS[0]), 10)
    for tokens in range(82, 3000, 7):
        capacity = capacity_of(requests, Room(rows=30, tokens=tokens), max_tokens=50)
        assert 1 <= capacity.rows <= 30
        assert capacity.prompt_tokens >= capacity.longest == 32
        assert capacity.rows * 50 + capacity.prompt_tokens <= tokens
    with pytest.raises(SettingsError, match=r"32 tokens and max_tokens = 50 .* cache_tokens = 81"):
        capacity_of(requests, Room(rows=30, tokens=81), max_tokens=50)


def test_the_room_is_that_of_free_memory_next_to_the_logits():
    model = model_of("qwen2")
    config, free = model.config, 2**30
    with CountingDevice(free_memory=free) as device:
        room = room_in_memory(device.move(model), max_tokens=100, width=2)
    size = config.hidden_size // config.num_attention_heads
    token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * size
    used = room.tokens * token + room.rows * 18 * config.vocab_size
    assert 0.84 * free < used <= 0.85 * free  # the model is small
    copies = 2 * sum(parameter.numel() for parameter in model.parameters())  # of autocast
    assert room.rows == int(0.85 * (free - copies) / (100 * token + 18 * config.vocab_size))


def test_long_prompts_are_run_in_parts(monkeypatch):
    monkeypatch.setattr(rows_in_place, "PREFILL_TOKENS", 40)
    assert PREFILL_TOKENS == 8192
    # The second prompt's part is kept before the others', which borrow from it.
    prompts = [(7, 9) * 22, *((*STEM, i, i + 1, 9) for i in range(9, 20)), *PROMPTS]
    InPlace(monkeypatch).require_as_before(requests_of(3, prompts), parameters_of(9))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_on_a_gpu_log_probs_are_those_of_a_full_forward(caplog, top_p):
    model = build_model("llama_gqa", max_position_embeddings=128, initializer_range=0.1)
    model = model.to("cuda")
    parameters = parameters_of(50, top_p=top_p)
    sampler = TorchSampler(model, build_tokenizer(), dtype="bfloat16")
    requests = requests_of(40)
    drawn = sampler.sample(requests, parameters, seed=0)
    refused = ["a token is not one launch" in message for message in caplog.messages]
    assert any(refused) is (top_p < 1)
    gaps = []
    for request, group in zip(requests, drawn, strict=True):
        for completion in group:
            ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]], device="cuda")
            with torch.no_grad():
                table = torch.log_softmax(model(input_ids=ids).logits[0], dim=-1)[:-1]
            first = len(request.prompt_ids) - 1
            own = table[first:].gather(1, ids[0, first + 1 :, None])[:, 0]
            gaps += (own - torch.tensor(completion.logprobs, device="cuda")).abs().tolist()
    assert max(gaps) < 0.1
