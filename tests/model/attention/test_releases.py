"""What each release of transformers calls the parts that this package reads."""

from inspect import Parameter, Signature

import pytest
import transformers as tf
from packaging.version import Version

from dph.model.attention.releases import cache_argument, causal_classes, keeps_state
from tiny_models import FAMILIES, build_model

CACHE_SINCE = {"5.5": "past_key_values", "5.24": "cache"}
INSTALLED = Version(tf.__version__)


@pytest.mark.parametrize("family", FAMILIES)
def test_this_release_calls_the_cache_as_its_row_says(family):
    named = [name for since, name in CACHE_SINCE.items() if Version(since) <= INSTALLED]
    assert cache_argument(build_model(family)) == named[-1]


def taking(*names):
    """A class whose forward takes these arguments."""

    def forward(*_given): ...

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY) for name in ("input_ids", *names)]
    forward.__signature__ = Signature(parameters)
    return type("Model", (), {"forward": staticmethod(forward)})


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["past_key_values"], "past_key_values"),
        (["cache"], "cache"),
        (["past_key_values", "cache"], "cache"),
        (["memory"], None),
    ],
)
def test_the_newer_of_the_known_names_of_a_cache_counts(names, found):
    assert cache_argument(taking(*names)()) == found


@pytest.mark.parametrize(
    ("name", "kept"),
    [("state", True), ("cache_params", True), ("cache", False), ("memory", False)],
)
def test_a_state_is_known_by_the_arguments_of_the_forward(name, kept):
    assert keeps_state(tf.LlamaConfig(), [taking(name)]) == kept


def test_a_state_is_known_by_the_layers_of_the_cache():
    config = tf.MambaConfig(num_hidden_layers=2)
    assert keeps_state(config, [tf.LlamaForCausalLM])


def test_the_classes_of_a_config_are_those_that_transformers_loads():
    assert causal_classes(tf.LlamaConfig()) == (tf.LlamaForCausalLM,)
    assert causal_classes(tf.ViTConfig()) == ()
