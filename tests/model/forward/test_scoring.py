import pytest

from dph.model.forward import logprobs as scoring
from dph.model.forward.logprobs import score_completions
from tiny_models import build_model

PROMPTS = [(3, 4, 5)] * 3 + [(6,)]
COMPLETIONS = [(7, 8), (9,), (), (10, 11, 12)]


def score(model, **changes):
    options = {"temperature": 0.8, "pad_id": 0, "token_budget": 99, "dtype": "float32"} | changes
    return score_completions(model, PROMPTS, COMPLETIONS, **options)


@pytest.mark.parametrize("sharing", ["auto", "always", "never"])
@pytest.mark.parametrize("budget", [1, 5, 99])
def test_scores_come_in_the_order_given_however_rows_are_cut(sharing, budget):
    model = build_model().train()
    expected = score(model, sharing="never")
    found = score(model, sharing=sharing, token_budget=budget)
    assert [len(row) for row in found] == [2, 1, 0, 3]
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, abs=1e-5)
    assert model.training


def test_rows_of_a_prompt_share_its_forward_when_told_to(monkeypatch):
    seen = []
    original = scoring.completion_scores

    def note(model, prompts, completions, **options):
        seen.append((len(prompts), options["sharing"]))
        return original(model, prompts, completions, **options)

    monkeypatch.setattr(scoring, "completion_scores", note)
    long = [(3, 4, 5) * 9, (3, 4, 5) * 9, (6,)]
    options = {"temperature": 1.0, "pad_id": 0, "token_budget": 30, "dtype": "float32"}
    score_completions(build_model(), long, [(7, 8), (9,), (1,) * 9], **options, sharing="always")
    assert seen == [(2, "always"), (1, "always")]


def test_without_rows_there_are_no_scores():
    assert (
        score_completions(
            build_model(), [], [], temperature=1.0, pad_id=0, token_budget=9, dtype="float32"
        )
        == []
    )


def test_every_module_is_in_its_own_mode_afterwards_even_when_scoring_fails(monkeypatch):
    model = build_model().train()
    model.lm_head.eval()
    score(model)
    assert model.training
    assert not model.lm_head.training

    def fail(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr(scoring, "completion_scores", fail)
    with pytest.raises(MemoryError):
        score(model)
    assert model.training
    assert not model.lm_head.training
