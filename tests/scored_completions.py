"""Log-probs of completions with the settings given by name, as a run's scorer computes them."""

from dph.model.forward.scorer import AnswerScorer


def score_completions(model, prompts, completions, *, written=None, **settings):
    return AnswerScorer(**settings).logprobs(model, prompts, completions, written=written)
