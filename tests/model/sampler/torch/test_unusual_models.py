"""Models whose layers are special: drawn from as they are, or refused by name."""

import random
from itertools import chain

import pytest
import torch
import transformers as tf

from dph.errors import ModelError
from dph.model.loading import load_model
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from tiny_models import VOCABULARY, build_model, build_tokenizer

IDS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
SMALL = IDS | {"hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.25}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
RECURRENT = {
    "mamba": lambda: build_model("mamba"),
    "mamba2": lambda: tf.Mamba2ForCausalLM(
        tf.Mamba2Config(**SMALL, head_dim=16, num_heads=4, state_size=8, n_groups=1)
    ),
    "jamba": lambda: tf.JambaForCausalLM(
        tf.JambaConfig(**SMALL, **HEADS, attn_layer_period=2, attn_layer_offset=1, num_experts=2)
    ),
    "rwkv": lambda: tf.RwkvForCausalLM(
        tf.RwkvConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2)
    ),
}


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_falcon_draws_what_its_full_forward_says(alibi, attention):
    torch.manual_seed(0)
    config = tf.FalconConfig(**SMALL, num_attention_heads=4, alibi=alibi)
    config._attn_implementation = attention
    model = tf.FalconForCausalLM(config).eval()
    numbers = random.Random(0)
    requests = [
        SampleRequest(
            problem_id=f"p{i}",
            prompt_ids=tuple(numbers.randrange(3, VOCABULARY) for _ in range(2 + 3 * i)),
            samples=3,
        )
        for i in range(3)
    ]
    parameters = SamplingParameters(max_tokens=8, stop_token_ids=(1, 5))
    results = TorchSampler(model, build_tokenizer()).sample(requests, parameters, seed=0)
    for request, drawn in zip(requests, results, strict=True):
        for completion in drawn:
            ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
            with torch.no_grad():
                # A mask of ones: without one, Falcon's eager attention is not causal.
                logits = model(ids, attention_mask=torch.ones_like(ids)).logits[0].float()
            table = torch.log_softmax(logits, dim=-1)[len(request.prompt_ids) - 1 : -1]
            expected = table.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0].tolist()
            assert completion.logprobs == pytest.approx(expected, abs=1e-4)


class OfAnotherRelease(tf.LlamaForCausalLM):
    """A Llama whose cache has a name that nobody knows, and no positions."""

    def forward(self, input_ids, attention_mask=None, memory=None, use_cache=False):
        assert memory is None
        assert not use_cache
        return super().forward(input_ids, attention_mask=attention_mask, use_cache=False)


class Bidirectional(OfAnotherRelease):
    """Another whose every logit knows of all tokens."""

    def forward(self, input_ids, attention_mask=None, memory=None, use_cache=False):
        output = super().forward(input_ids, attention_mask, memory, use_cache)
        output.logits = output.logits + output.logits.mean(1, keepdim=True)
        return output


REQUESTS = [
    SampleRequest(problem_id=f"p{i}", prompt_ids=tuple(range(3, 5 + 3 * i)), samples=3)
    for i in range(3)
]


def test_a_model_whose_cache_has_no_known_name_draws_the_same_and_is_told_of_once(caplog):
    known = build_model("llama")
    unknown = OfAnotherRelease(known.config).eval()
    unknown.load_state_dict(known.state_dict())
    parameters = SamplingParameters(max_tokens=8, stop_token_ids=(1, 5))
    expected = TorchSampler(known, build_tokenizer()).sample(REQUESTS, parameters, seed=0)
    sampler = TorchSampler(unknown, build_tokenizer())
    for _ in range(2):
        drawn = sampler.sample(REQUESTS, parameters, seed=0)
    for ours, theirs in zip(chain(*drawn), chain(*expected), strict=True):
        assert ours.token_ids == theirs.token_ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)
    assert caplog.messages == [
        "OfAnotherRelease: prompts are not shared in sampling: its forward takes no logits_to_keep",
        "OfAnotherRelease: each token runs its whole row in sampling, which is slow: its forward "
        "takes no cache or past_key_values",
    ]


def test_a_model_that_is_not_causal_is_refused_by_name():
    model = Bidirectional(build_model("llama").config).eval()
    with pytest.raises(ModelError, match="Bidirectional is not causal: its logits"):
        TorchSampler(model, build_tokenizer()).sample(
            REQUESTS, SamplingParameters(max_tokens=8, stop_token_ids=(1,)), seed=0
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", RECURRENT)
def test_a_model_with_a_recurrent_state_is_refused_by_name(family):
    model = RECURRENT[family]()
    with pytest.raises(ModelError, match=f"{type(model).__name__} is not supported: .*recurrent"):
        TorchSampler(model, build_tokenizer())


@pytest.mark.filterwarnings("ignore")
def test_a_recurrent_model_on_disk_is_refused_by_name(tmp_path):
    build_model("mamba").save_pretrained(tmp_path / "mamba")
    with pytest.raises(ModelError, match=r"mamba is not supported: .*recurrent state"):
        load_model(tmp_path / "mamba", device="cpu")
