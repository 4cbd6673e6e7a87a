"""Models whose layers are special: drawn from as they are, or refused by name."""

from itertools import chain

import pytest
import transformers as tf

from dph.errors import ModelError
from dph.model.loading import load_model
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from tiny_models import build_model, build_tokenizer


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
