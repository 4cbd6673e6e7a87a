import pytest
import transformers as tf

from dph.errors import ModelError
from dph.model.loading import require_usable
from tiny_models import FAMILIES, MORE_FAMILIES

REFUSED = {
    "encoder-decoder": (tf.T5Config(), "org/m: t5 is an encoder-decoder, not a causal model"),
    "no text": (tf.ViTConfig(), "org/m: transformers has no causal language model of the kind vit"),
    "recurrent": (tf.MambaConfig(), "org/m: mamba is not supported: its layers keep a recurrent"),
    "no cache": (tf.RwkvConfig(), "org/m: rwkv is not supported: its layers keep a recurrent"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_sampled_is_refused_by_its_config(case):
    config, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        require_usable(config, "org/m")


@pytest.mark.parametrize("family", sorted({*FAMILIES, *MORE_FAMILIES} - {"mamba"}))
def test_every_family_that_the_tests_train_is_usable(family):
    config_class, _, own = (FAMILIES | MORE_FAMILIES)[family]
    require_usable(config_class(**own), family)
