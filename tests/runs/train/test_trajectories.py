"""The oracle of a trajectory: a row for each turn, with all that came before as its prompt."""

from dataclasses import replace
from itertools import compress, groupby, product
from operator import itemgetter

import pytest
import torch

from dph.errors import DataError, PoolError
from dph.loss.divergences import ForwardKL
from dph.loss.objectives import Anchor, Objective, mixed_loss
from dph.model.forward.logprobs import completion_scores
from dph.model.forward.scorer import AnswerScorer, next_tokens
from dph.recipe import ObjectiveSettings
from dph.recipe.methods import METHODS
from dph.runs.objective import make_objective
from dph.runs.presample.tables import RehearsalSample, rehearsal_sample, rehearsal_table
from dph.runs.train.policy_rows import require_reference
from dph.runs.train.rows import Minibatch, PolicyRow, WeightedRow, length_of
from dph.runs.train.updating import plan_microbatches, scored_batch, update, weigh
from loop_parts import FORWARD, Frozen, stored_answer, training_forward
from scored_completions import score_completions
from tiny_models import VOCABULARY, build_model

PROMPT = (5, 6, 7, 8)
TURNS = (
    # Turns of the policy and results between them, the policy's first and last.
    ((9, 10, 1), (20, 21), (11, 1)),
    ((9, 1), (22,) * 12, (12, 13, 14, 1)),
    ((15, 1),),
    ((16, 9, 1), (23,), (17, 1), (24, 25, 26), (18, 19, 1)),
)


@pytest.fixture(scope="module")
def model():
    return build_model(seed=3)


@pytest.fixture(scope="module")
def reference():
    return build_model(seed=4)


def joined(turns):
    """Tokens of a trajectory, and which of them the policy wrote."""
    ids = tuple(token for turn in turns for token in turn)
    return ids, tuple(place % 2 == 0 for place, turn in enumerate(turns) for _ in turn)


def by_transformers(model, ids):
    """Log-probs of every token but the first, by the model's own forward of one row."""
    table = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return table[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def written_logprobs(model, turns):
    ids, written = joined(turns)
    return by_transformers(model, (*PROMPT, *ids))[len(PROMPT) - 1 :][torch.tensor(written)]


def scores_of(model, rows, written, **more):
    more = {**FORWARD, "token_budget": 4000, **more}
    return score_completions(model, [PROMPT] * len(rows), rows, written=written, **more)


def gradient(model, value):
    parameters = list(model.parameters())
    found = torch.autograd.grad(value, parameters)
    return torch.cat([each.flatten() for each in found])


@pytest.mark.parametrize("sharing", ["always", "never"])
def test_scores_and_gradients_are_those_of_transformers_row_by_row(model, sharing):
    rows, written = zip(*map(joined, TURNS), strict=True)
    scores = completion_scores(
        model, [PROMPT] * 4, rows, temperature=1.0, pad_id=0, sharing=sharing, written=written
    )
    expected = [written_logprobs(model, turns) for turns in TURNS]
    assert scores.mask.sum(1).tolist() == [5, 6, 2, 8]
    for found, mask, alone in zip(scores.logprobs, scores.mask, expected, strict=True):
        torch.testing.assert_close(found[mask], alone, atol=1e-6, rtol=1e-6)
    weights = torch.linspace(-1, 1, 21)
    ours = gradient(model, (scores.logprobs[scores.mask] * weights).sum())
    theirs = gradient(model, (torch.cat(expected) * weights).sum())
    torch.testing.assert_close(ours, theirs, atol=1e-6 * float(theirs.abs().max()), rtol=1e-5)


def test_scores_without_gradient_and_whole_tables_leave_the_same_tokens_out(model):
    rows, written = zip(*map(joined, TURNS), strict=True)
    scored = scores_of(model, rows, written)
    tables = next_tokens(model, [PROMPT] * 4, rows, temperature=1.0, pad_id=0, written=written)
    table = tables.logprobs(slice(0, 21))
    expected = torch.cat([written_logprobs(model, turns) for turns in TURNS])
    assert [len(row) for row in scored] == [5, 6, 2, 8]
    torch.testing.assert_close(torch.tensor(sum(scored, ())), expected, atol=1e-6, rtol=1e-6)
    assert table.shape == (21, VOCABULARY)


def test_two_models_are_compared_on_the_policys_tokens(model, reference):
    rows, written = zip(*map(joined, TURNS), strict=True)
    given = model, reference, [PROMPT] * len(rows), rows
    whole, mine = (AnswerScorer(**FORWARD).compared(*given, said) for said in (None, written))
    for one, other, own in zip(whole, mine, written, strict=True):
        for name in ("logprobs", "ref_logprobs", "entropy", "reverse_kl", "forward_kl"):
            expected = list(compress(getattr(one, name), own))
            assert getattr(other, name) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("sharing", ["never", "always"])
def test_trajectories_that_never_began_have_no_scores(model, sharing):
    assert scores_of(model, [(), ()], [(), ()], sharing=sharing) == [(), ()]


def test_a_row_that_does_not_say_of_every_token_who_wrote_it_is_refused(model):
    with pytest.raises(DataError, match="says it of every token"):
        completion_scores(model, [PROMPT], [(9, 1)], temperature=1.0, pad_id=0, written=[(True,)])


def policy_row(model, reference, turns, advantage):
    ids, written = joined(turns)
    drift = torch.linspace(-0.3, 0.3, sum(written))  # the policy has moved since
    return PolicyRow(
        prompt_ids=PROMPT,
        completion_ids=ids,
        advantage=advantage,
        old_logprobs=tuple((written_logprobs(model, turns) + drift).tolist()),
        ref_logprobs=tuple(written_logprobs(reference, turns).tolist()),
        written=written,
    )


def stored_row(reference, turns):
    ids, written = joined(turns)
    ref = tuple(written_logprobs(reference, turns).tolist())
    return stored_answer(ids, ref, prompt=PROMPT, written=written)


_OF_TOKENS = {PolicyRow: ("old_logprobs", "ref_logprobs"), RehearsalSample: ("ref_logprobs",)}


def apart(row):
    """A trajectory as rows of one turn, each with all that came before as its prompt."""
    before, found, done = row.prompt_ids, [], 0
    tokens = zip(row.written, row.completion_ids, strict=True)
    for own, turn in groupby(tokens, key=itemgetter(0)):
        ids = tuple(token for _, token in turn)
        if own:
            end = done + len(ids)
            parts = {name: getattr(row, name)[done:end] for name in _OF_TOKENS[type(row)]}
            alone = {"prompt_ids": before, "completion_ids": ids, "written": None}
            found.append(replace(row, **alone, **parts))
            done = end
        before += ids
    return found


def step_of(model, minibatch, objective, reference):
    """The gradient of a step and its report."""
    reference = reference if objective.reads_reference_tables else None
    forward = training_forward(model, token_budget=60, max_tokens=40, reference=reference)
    optimizer = Frozen(model.parameters(), lr=1.0)
    report = update(minibatch, forward, optimizer, objective=objective, max_grad_norm=1e9)
    return optimizer.gradient, report


OTHERS = {"flowrl": "its residual is that of a whole answer"}
TESTED = [name for name in METHODS if name not in OTHERS]


@pytest.mark.parametrize("name", TESTED)
def test_a_step_on_trajectories_is_one_on_their_turns(model, reference, name):
    objective = replace(
        make_objective(ObjectiveSettings(**METHODS[name].get("objective", {}))),
        reduction="token_mean",
    )
    rows = [
        policy_row(model, reference, turns, advantage)
        for turns, advantage in zip(TURNS, (1.0, -0.5, 0.7, -1.2), strict=True)
    ]
    stored = {name: (stored_row(reference, TURNS[0]),) for name in objective.anchors}
    whole = Minibatch(groups=(tuple(rows),), stored=stored)
    cut = Minibatch(
        groups=(tuple(part for row in rows for part in apart(row)),),
        stored={
            name: tuple(p for row in some for p in apart(row)) for name, some in stored.items()
        },
    )
    ours, report = step_of(model, whole, objective, reference)
    theirs, expected = step_of(model, cut, objective, reference)
    assert report.rows == 4 + len(stored)
    assert report.policy == pytest.approx(expected.policy, rel=1e-5, abs=1e-6)
    assert report.penalties == pytest.approx(expected.penalties, rel=1e-5, abs=1e-6)
    assert report.anchors == pytest.approx(expected.anchors, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(ours, theirs, atol=2e-6 * float(theirs.abs().max()), rtol=1e-4)


def test_denominators_count_the_policys_tokens_alone(model, reference):
    rows = [policy_row(model, reference, turns, 1.0) for turns in TURNS]
    assert [length_of(row) for row in rows] == [5, 6, 2, 8]
    minibatch = Minibatch(groups=(tuple(rows),), stored={})
    for reduction, weights in {
        "token_mean": [1 / 21] * 4,
        "sequence_mean": [1 / 20, 1 / 24, 1 / 8, 1 / 32],
        "fixed_length": [1 / 160] * 4,
    }.items():
        found = weigh(minibatch, objective=Objective(reduction=reduction), max_tokens=40)
        assert [w.weight for w in found] == pytest.approx(weights)


# Two turns, enumerated: the policy says any word, the tool answers, it says any other.

WORDS = range(VOCABULARY)


def answer(word):
    """What the tool says to a word: one to three words."""
    return (20 + word % 5,) * (1 + word % 3)


def reward(first, second):
    return ((7 * first + 3 * second) % 11) / 10


def enumerated(model):
    """Every trajectory of two words, and the log-likelihoods of all of them by transformers."""

    def over(ids):
        return model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)

    first = over(PROMPT)
    second = torch.stack([over((*PROMPT, word, *answer(word))) for word in WORDS])
    turns = [((one,), answer(one), (two,)) for one, two in product(WORDS, WORDS)]
    return turns, (first[:, None] + second).flatten()


def rows_of(model, turns):
    """Tokens of trajectories, which of them were written, and the log-probs of those."""
    rows, written = zip(*map(joined, turns), strict=True)
    return zip(rows, written, scores_of(model, rows, written), strict=True)


def loss_of(model, rows, weights, objective, source):
    weighted = [
        WeightedRow(row=row, weight=float(weight), source=source)
        for row, weight in zip(rows, weights, strict=True)
    ]
    forward = training_forward(model, token_budget=10**6, max_tokens=40)
    (batch,) = plan_microbatches(
        model,
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        token_budget=10**6,
        sharing="auto",
    )
    ordered = [weighted[i] for i in batch.rows]
    scored = scored_batch(ordered, batch, forward, objective)
    return mixed_loss(scored.rows, objective, scored.over_vocabulary)


def test_the_surrogate_is_the_gradient_of_the_expected_reward(model):
    """E[A grad log pi] over all trajectories is grad E[R], for A = R less any constant."""
    turns, logprobs = enumerated(model)
    likely = logprobs.exp()
    rewards = torch.tensor([reward(one, two) for (one,), _, (two,) in turns])
    expected = gradient(model, -(likely * rewards).sum())
    rows = [
        PolicyRow(
            prompt_ids=PROMPT,
            completion_ids=ids,
            advantage=float(worth) - 0.5,
            old_logprobs=old,
            written=written,
        )
        for (ids, written, old), worth in zip(rows_of(model, turns), rewards, strict=True)
    ]
    loss = loss_of(model, rows, likely.detach(), Objective(), 0)
    ours = gradient(model, loss.total)
    torch.testing.assert_close(ours, expected, atol=1e-4 * float(expected.abs().max()), rtol=1e-3)


def test_rehearsal_is_the_forward_divergence_of_the_trajectories(model, reference):
    """E_ref[log ref - log pi] over all trajectories: what the tool answers cancels."""
    turns, ours_log = enumerated(model)
    with torch.no_grad():
        _, of_reference = enumerated(reference)
    divergence = (of_reference.exp() * (of_reference - ours_log)).sum()
    rows = [
        stored_answer(ids, ref, prompt=PROMPT, written=written)
        for ids, written, ref in rows_of(reference, turns)
    ]
    objective = Objective(anchors={"rehearsal": Anchor(divergence=ForwardKL(), weight=1.0)})
    loss = loss_of(model, rows, of_reference.exp(), objective, 1)
    assert loss.anchors["rehearsal"].item() == pytest.approx(divergence.item(), rel=1e-5)
    expected = gradient(model, divergence)
    ours = gradient(model, loss.total)
    torch.testing.assert_close(ours, expected, atol=1e-4 * float(expected.abs().max()), rtol=1e-3)


def test_the_check_at_step_0_is_of_the_policys_tokens(model, reference):
    forward = training_forward(model, max_tokens=40)
    require_reference([stored_row(model, turns) for turns in TURNS], forward)
    with pytest.raises(PoolError, match="not this policy's"):
        require_reference([stored_row(reference, turns) for turns in TURNS], forward)


def test_a_stored_trajectory_comes_back_and_others_have_no_column_for_it(reference):
    acting, plain = stored_row(reference, TURNS[1]), stored_row(reference, TURNS[2])
    plain = replace(plain, written=None)
    rounded = [
        replace(row, ref_logprobs=tuple(torch.tensor(row.ref_logprobs).tolist()))
        for row in (acting, plain)
    ]
    back = [rehearsal_sample(row) for row in rehearsal_table(rounded).to_pylist()]
    assert back == rounded
    assert "written" not in rehearsal_table([plain]).column_names
    with pytest.raises(PoolError, match="6 tokens but 5 log-probs"):
        replace(acting, ref_logprobs=acting.ref_logprobs[1:])
