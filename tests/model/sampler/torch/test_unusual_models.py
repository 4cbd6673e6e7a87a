"""Which models share prompts; models with special layers are drawn from or refused by name."""

import math
from itertools import chain

import pytest
import torch
import transformers as tf

from dph.errors import ModelError
from dph.model.loading import load_model, load_tokenizer
from dph.model.releases import attention_window
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph.model.sampler.torch.shared_forward import sharing_refusal, window_refusal
from smollm2_model import smollm2  # noqa: F401
from tiny_models import FAMILIES, build_model, build_tokenizer


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
def test_a_model_with_a_recurrent_state_is_refused_by_name_also_on_disk(tmp_path):
    model = build_model("mamba")
    with pytest.raises(ModelError, match=r"MambaForCausalLM is not supported: .*recurrent"):
        TorchSampler(model, build_tokenizer())
    model.save_pretrained(tmp_path / "mamba")
    with pytest.raises(ModelError, match=r"mamba is not supported: .*recurrent state"):
        load_model(tmp_path / "mamba", device="cpu")


def test_the_window_is_that_of_the_layer_that_sees_least_and_longer_rows_are_refused():
    reach = {"llama": math.inf, "gpt2": math.inf, "gemma2": 64, "mistral_window": 5}
    assert {family: attention_window(build_model(family)) for family in reach} == reach
    model = build_model("mistral_window")
    assert window_refusal(model, 5) is None
    assert window_refusal(model, 6) == "a row may have 6 tokens, a layer attends to the last 5"


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        *((family, "eager") for family in FAMILIES if family != "bloom"),
        *((family, "sdpa") for family in FAMILIES if family not in ("bloom", "gemma2")),
    ],
)
def test_models_that_attend_through_the_registry_share_prompts_also_rounded(family, attention):
    model = build_model(family)
    model.config._attn_implementation = attention
    for narrow in (False, True):
        with torch.no_grad():
            assert sharing_refusal(model.to(torch.bfloat16) if narrow else model) is None
    assert model.config._attn_implementation == attention


def test_models_that_attend_otherwise_do_not_and_lost_weights_are_left_to_the_sampler():
    unnumbered, lost = build_model("llama"), build_model("llama")
    for layer in unnumbered.model.layers:
        del layer.self_attn.layer_idx
    lost.lm_head.weight.data.fill_(torch.nan)
    with torch.no_grad():
        # ALiBi, outside the registry
        assert sharing_refusal(build_model("bloom")) == "its forward takes no position_ids"
        refusal = "packed attention cannot compute s_aux (GptOssAttention)"
        assert sharing_refusal(build_model("gpt_oss")) == refusal
        assert "LlamaAttention" in sharing_refusal(unnumbered)
        assert sharing_refusal(lost) is None


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_a_real_model_shares_prompts_in_every_precision_and_a_wrong_one_does_not(smollm2, weights):  # noqa: F811
    model = load_model(smollm2, device="cpu", weights=weights)
    asked = "How many heads of the departments are older than 56?"
    prompts = [load_tokenizer(smollm2)(asked)["input_ids"]]
    with torch.no_grad():
        assert sharing_refusal(model, prompts) is None
        # It sees the token before, past every attention mask.
        layer = model.model.layers[0].mlp
        layer.register_forward_hook(lambda _m, _i, out: out + out.roll(1, dims=1))
        assert sharing_refusal(model, prompts) == "shared prompts change its logits"
