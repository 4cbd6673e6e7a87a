import pytest

from tiny_models import build_model, build_tokenizer


@pytest.fixture
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def make_model():
    return build_model
