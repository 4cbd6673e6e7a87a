import random

import pytest
import torch

from adapted_models import KINDS, adapted_model, plain_peft
from dph.errors import DataError, ModelError
from dph.model.forward import logprobs, over_vocabulary
from dph.model.forward.logprobs import RowStatistic, completion_scores
from dph.model.forward.packing import pack
from dph.model.loading import autocast, load_model
from dph.model.policies import save_policy
from tiny_models import FAMILIES, PLAIN_FAMILIES


def drawing(seed):
    """A function from a count to so many tokens."""
    numbers = random.Random(seed)
    return lambda count: [numbers.randrange(3, 48) for _ in range(count)]


def ragged_rows():
    draw = drawing(0)
    return [draw(n) for n in (1, 9, 4, 4)], [draw(n) for n in (7, 2, 1, 0)]


def naive_tables(model, prompts, completions, temperature):
    """Full logits of each row by itself, without padding."""
    for prompt, completion in zip(prompts, completions, strict=True):
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0]
        yield torch.log_softmax(logits / temperature, dim=-1)[len(prompt) - 1 : -1], completion


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradient_equal_those_of_full_logits_row_by_row(make_model, family):
    model = make_model(family)
    prompts, completions = ragged_rows()
    scores = completion_scores(model, prompts, completions, temperature=0.7, pad_id=0)
    expected = torch.zeros(4, 7)
    for row, (table, completion) in enumerate(naive_tables(model, prompts, completions, 0.7)):
        for column, token in enumerate(completion):
            expected[row, column] = table[column, token]
    torch.testing.assert_close(scores.logprobs, expected, rtol=1e-5, atol=1e-5)
    assert scores.mask.sum(dim=1).tolist() == [7, 2, 1, 0]
    weights = torch.arange(28.0).reshape(4, 7) / 28
    ours = gradients(model, (weights * scores.logprobs).sum())
    theirs = gradients(model, (weights * expected).sum())
    scale = max(g.abs().max() for g in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=1e-5)


def test_the_pad_token_and_the_other_rows_do_not_matter_and_the_head_sees_completions(make_model):
    model, seen = make_model(), []
    prompts, completions = ragged_rows()
    base = completion_scores(model, prompts, completions, temperature=1.0, pad_id=0).logprobs
    handle = model.lm_head.register_forward_hook(lambda _m, _i, out: seen.append(out.shape))
    other = completion_scores(model, prompts, completions, temperature=1.0, pad_id=9).logprobs
    handle.remove()
    assert seen == [(1, 10, 48)]
    torch.testing.assert_close(other, base, rtol=0, atol=0)
    alone = completion_scores(model, prompts[1:2], completions[1:2], temperature=1.0, pad_id=0)
    torch.testing.assert_close(alone.logprobs[0], base[1, :2], rtol=1e-5, atol=1e-5)
    assert model(input_ids=torch.tensor([[3, 4, 5]])).logits.shape == (1, 3, 48)


def test_a_model_that_bypasses_its_head_module_still_gives_the_same_values(make_model):
    model = make_model()
    expected = completion_scores(model, *ragged_rows(), temperature=1.0, pad_id=0).logprobs
    model.get_output_embeddings = lambda: None
    bypassed = completion_scores(model, *ragged_rows(), temperature=1.0, pad_id=0).logprobs
    torch.testing.assert_close(bypassed, expected, rtol=1e-5, atol=1e-5)
    # A head that is fed something else than one hidden state a token is not touched.
    odd = torch.nn.Linear(32, 48)
    model.get_output_embeddings = lambda: odd
    model.model.norm.register_forward_hook(lambda _m, _i, out: (odd(out[:, :1]), out)[1])
    untouched = completion_scores(model, *ragged_rows(), temperature=1.0, pad_id=0).logprobs
    torch.testing.assert_close(untouched, expected, rtol=1e-5, atol=1e-5)


def test_a_bypassed_head_is_noticed_with_as_many_completion_tokens_as_packed_ones(make_model):
    model = make_model()
    # 6 + (2 + 1 + 3 + 0 + 0 + 1) packed tokens, 3 + 2 + 4 + 1 + 1 + 2 completion tokens.
    rows = [[3, 4, 5, 6, 7, 8]] * 6, [[5, 6, 7], [7, 8], [2, 3, 4, 1], [9], [4], [8, 8]]
    assert len(pack(*rows, device=model.device).ids) == sum(map(len, rows[1]))
    expected = completion_scores(model, *rows, temperature=1.0, pad_id=0, sharing="never")
    model.get_output_embeddings = lambda: None
    bypassed = completion_scores(model, *rows, temperature=1.0, pad_id=0, sharing="always")
    torch.testing.assert_close(bypassed.logprobs, expected.logprobs, rtol=1e-5, atol=1e-5)


def test_malformed_rows_and_logits_of_an_unknown_shape_are_refused(make_model):
    model = make_model()
    for prompts, completions, message in (
        ([[3], []], [[4], [5]], "row 1 has an empty prompt"),
        ([[3]], [[4], [5]], "got 1 prompts and 2 completions"),
        ([], [], "at least one"),
    ):
        with pytest.raises(DataError, match=message):
            completion_scores(model, prompts, completions, temperature=1.0, pad_id=0)
    model.lm_head.register_forward_hook(lambda _m, _i, out: out[:, :3])
    with pytest.raises(ModelError, match=r"logits of shape \(1, 3, 48\)"):
        completion_scores(model, *ragged_rows(), temperature=1.0, pad_id=0)


def grouped_rows():
    """Rows of five prompts, three of them on one schema, in no order.

    Empty and one-token completions are among them, and two that are equal.
    """
    draw = drawing(0)
    schema = draw(18)
    prompts = [schema + draw(7), draw(1), schema + draw(5), schema + draw(9), draw(24)]
    owners = [0, 1, 0, 2, 3, 0, 3, 3, 4, 0, 4, 4]
    completions = [draw(n) for n in (7, 2, 1, 0, 5, 4, 3, 9, 6, 6, 0, 6)]
    completions[11] = completions[8]
    return [prompts[owner] for owner in owners], completions


def random_rows(seed):
    """Groups of any shape."""
    numbers, draw = random.Random(seed), drawing(seed)
    schema, rows = draw(30), []
    for _ in range(numbers.randint(1, 6)):
        prompt = schema * numbers.randint(0, 1) + draw(numbers.randint(1, 20))
        rows += [(prompt, draw(numbers.randint(0, 12))) for _ in range(numbers.choice([1, 2, 5]))]
    prompts, completions = map(list, zip(*rows, strict=True))
    completions[0] = [5, *completions[0]]
    return prompts, completions


def both_ways(model, rows, *, within=1e-5, of_gradients=1e-5):
    """Scores of packed rows, whose values and gradients are those of padded ones."""
    options = {"temperature": 0.7, "pad_id": 0}
    shared, plain = (
        completion_scores(model, *rows, **options, sharing=sharing)
        for sharing in ("always", "never")
    )
    torch.testing.assert_close(shared.logprobs, plain.logprobs, rtol=0, atol=within)
    assert shared.mask.equal(plain.mask)
    assert_same_gradients(model, shared.logprobs, plain.logprobs, of_gradients)
    return shared


def assert_same_gradients(model, shared, plain, tolerance=1e-5):
    weights = torch.randn(plain.shape)
    ours, theirs = (gradients(model, (weights * values).sum()) for values in (shared, plain))
    scale = max(g.abs().max() for g in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("family", PLAIN_FAMILIES)
def test_sharing_prompts_changes_neither_values_nor_gradients(make_model, family):
    both_ways(make_model(family), grouped_rows())


@pytest.mark.parametrize("seed", range(5))
def test_sharing_is_exact_for_groups_of_any_shape(make_model, seed):
    both_ways(make_model("llama_gqa"), random_rows(seed))


@pytest.mark.parametrize("family", ["llama_gqa", "qwen3", "gemma2_capped", "gpt2"])
def test_sharing_works_with_gradient_checkpointing(make_model, tmp_path, family):
    make_model(family).save_pretrained(tmp_path)
    attention = "eager" if "gemma2" in family else "sdpa"
    options = {"attention": attention, "gradient_checkpointing": True}
    both_ways(load_model(tmp_path, device="cpu", **options).train(), grouped_rows())


def test_sharing_in_bfloat16_is_as_close_as_bfloat16_is(make_model):
    model = make_model(initializer_range=0.1)
    with autocast(model, "bfloat16"):
        shared = both_ways(model, grouped_rows(), within=0.1, of_gradients=0.05)
    assert shared.logprobs.dtype is torch.float32


@pytest.mark.parametrize("family", ["llama_gqa", "qwen2", "gpt2", "gemma2", "granite"])
@pytest.mark.parametrize("sharing", ["always", "never"])
def test_large_logits_are_computed_in_blocks_to_the_same_values(
    make_model, monkeypatch, family, sharing
):
    model = make_model(family)
    options = {"temperature": 0.7, "pad_id": 0, "sharing": sharing}
    whole = completion_scores(model, *grouped_rows(), **options)
    monkeypatch.setattr(logprobs, "_LOGITS_AT_ONCE", 0)
    blocks = completion_scores(model, *grouped_rows(), **options)
    torch.testing.assert_close(blocks.logprobs, whole.logprobs, rtol=0, atol=1e-5)
    assert_same_gradients(model, blocks.logprobs, whole.logprobs)


def of_vocabulary(rows, length):
    """The entropy at the tokens of some rows, and two tokens' log-probs at those of the others."""
    torch.manual_seed(3)
    ids = torch.randint(3, 40, (length, 2))

    def entropy(table, _):
        return (table.exp() * -table).sum(-1, keepdim=True)

    def chosen(table, positions):
        return table.gather(-1, ids[positions])

    return [RowStatistic(rows, entropy), RowStatistic(~rows, chosen)]


@pytest.mark.parametrize("at_once", [2**24, 0], ids=["table", "blocks"])
@pytest.mark.parametrize("sharing", ["always", "never"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_statistics_are_those_of_each_row_alone(
    make_model, monkeypatch, at_once, sharing, temperature
):
    model = make_model("llama_gqa")
    prompts, completions = grouped_rows()
    chosen = torch.arange(len(prompts)) % 2 == 0
    length = sum(len(c) for c, entropy in zip(completions, chosen, strict=True) if not entropy)
    wanted = of_vocabulary(chosen, length)
    entropies, others, start = [], [], 0
    tables = naive_tables(model, prompts, completions, temperature)
    for (table, completion), entropy in zip(tables, chosen, strict=True):
        if entropy:
            entropies.append(wanted[0].of(table, None))
        else:
            others.append(wanted[1].of(table, slice(start, start + len(completion))))
            start += len(completion)
    options = {"temperature": temperature, "pad_id": 0, "sharing": sharing}
    plain = completion_scores(model, prompts, completions, **options)
    monkeypatch.setattr(logprobs, "_LOGITS_AT_ONCE", at_once)
    monkeypatch.setattr(over_vocabulary, "TABLE", 150)
    found = completion_scores(model, prompts, completions, statistics=wanted, **options)
    ours = torch.cat([v.flatten() for v in (*found.statistics, found.logprobs)])
    by_hand = (torch.cat(entropies), torch.cat(others), plain.logprobs)
    theirs = torch.cat([v.flatten() for v in by_hand])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
    assert_same_gradients(model, ours, theirs)


def test_scores_without_statistics_are_bit_for_bit_those_with_some_and_a_row_is_in_one(make_model):
    model, rows = make_model("llama_gqa"), grouped_rows()
    nothing, everything = (
        RowStatistic(torch.full((12,), chosen), lambda table, _: table[:, :1])
        for chosen in (False, True)
    )
    options = {"temperature": 0.7, "pad_id": 0}
    beside = completion_scores(model, *rows, **options, statistics=[nothing])
    alone = completion_scores(model, *rows, **options)
    assert torch.equal(beside.logprobs, alone.logprobs)
    assert [s.shape for s in beside.statistics] == [(0, 1)]
    assert alone.statistics == ()
    with pytest.raises(ValueError, match="a row appears in two statistics"):
        completion_scores(model, *rows, **options, statistics=[everything, everything])


# PEFT's wrapper, which we do not use, asks transformers by an older name.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["llama_gqa", "qwen3", "gemma2", "gpt2", "granite"])
def test_an_adapters_gradient_is_that_of_plain_transformers_with_peft(tmp_path, family, kind):
    model = adapted_model(family, kind)
    save_policy(model, tmp_path)
    plain, (prompts, completions) = plain_peft(tmp_path, family), grouped_rows()
    weights = torch.linspace(-1, 2, len(prompts))
    options = {"temperature": 1.0, "pad_id": 0, "sharing": "always"}
    scores = completion_scores(model, prompts, completions, **options)
    tables = naive_tables(plain, prompts, completions, 1.0)
    expected = torch.stack(
        [t.gather(1, torch.tensor(c, dtype=torch.long)[:, None]).sum() for t, c in tables]
    )
    torch.testing.assert_close(scores.logprobs.sum(1), expected, rtol=1e-5, atol=1e-4)
    found = []
    for one, value in ((model, scores.logprobs.sum(1)), (plain, expected)):
        (weights * value).sum().backward()
        found.append({n: p.grad for n, p in one.named_parameters() if p.requires_grad})
    ours, theirs = found
    assert {f"base_model.model.{name}" for name in ours} == theirs.keys()
    largest = max(float(grad.abs().max()) for grad in theirs.values())
    for name, grad in ours.items():
        gap = float((grad - theirs[f"base_model.model.{name}"]).abs().max())
        assert gap <= 1e-5 * largest, name
