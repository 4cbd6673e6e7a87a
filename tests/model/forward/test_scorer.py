from dataclasses import replace

import pytest

from dph.model.forward.logprobs import score_completions
from dph.model.forward.scorer import AnswerScorer, compared_tokens
from tiny_models import build_model

PROMPTS, COMPLETIONS = [(5, 6), (5, 7, 8)], [(9, 10), (11,)]
NUMBERS = {"pad_id": 0, "temperature": 0.7, "dtype": "float32", "token_budget": 64}


@pytest.fixture(scope="module")
def models():
    return build_model(seed=0), build_model(seed=1)


def test_a_scorer_gives_every_setting_to_the_forward_of_training(models):
    scorer = AnswerScorer(**NUMBERS, sharing="never")
    expected = score_completions(models[0], PROMPTS, COMPLETIONS, **NUMBERS, sharing="never")
    assert scorer.logprobs(models[0], PROMPTS, COMPLETIONS) == expected
    assert scorer.compared(*models, PROMPTS, COMPLETIONS) == compared_tokens(
        *models, PROMPTS, COMPLETIONS, **NUMBERS, sharing="never"
    )


def test_another_temperature_takes_the_place_of_its_own(models):
    scorer = AnswerScorer(**NUMBERS)
    other = replace(scorer, temperature=1.0).logprobs(models[0], PROMPTS, COMPLETIONS)
    assert scorer.logprobs(models[0], PROMPTS, COMPLETIONS, temperature=1.0) == other
    assert scorer.logprobs(models[0], PROMPTS, COMPLETIONS) != other
