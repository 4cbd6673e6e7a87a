import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dph.errors import ModelError
from lab.worlds.fused_llama import FusedLlama, imitation_gradients, lesson_batch
from lab.worlds.lessons import Answerer, Lesson, answers_of
from lab.worlds.small_model import new_model

EOS = 2


def some_answers(*starts):
    """For each start an answer of five tokens in which two choices show, the first one twice."""
    parts = []
    for start in starts:
        usual = [start, 40, 41, 40 + start, EOS]
        first, second = [start, 50, 41, 50 + start, EOS], [start, 40, 51, 40 + start, EOS]
        parts.append(Answerer(usual, [[first], [second]], [(0.9, 0.1), (0.25, 0.75)]))
    return answers_of(parts)


LESSONS = [
    Lesson((1, 20, 21, 22), (23, 24, 25), some_answers(5, 6, 7)),
    Lesson((1, 20, 21, 22), (26,), some_answers(5, 6)),
    Lesson((1,), (27, 28), some_answers(8)),
]


@pytest.fixture
def model(world_tokenizer):
    model = new_model(world_tokenizer, seed=0)
    with torch.no_grad():
        model.model.norm.weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(0))
    return model


def batch_of(lessons, seed=0):
    return lesson_batch(lessons, np.random.default_rng(seed), pad_id=0)


def plain_rows(lessons, seed=0):
    """For each target of the batch: its context as one sequence, and the chances of what comes."""
    rng, rows = np.random.default_rng(seed), []
    for lesson in lessons:
        answers = lesson.answers
        tokens, likely = answers.draw(rng.random(len(answers.chances)))
        context = [*lesson.stem, *lesson.prompt]
        begins = [
            i for i in range(len(tokens)) if i == 0 or answers.answer[i - 1] < answers.answer[i]
        ]
        rows.append((context, {int(tokens[i]): 1 / len(begins) for i in begins}))
        for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=True):
            for cell in range(begin + 1, end):
                chances = {}
                for option, chance in zip(answers.options[cell], likely[cell], strict=True):
                    chances[int(option)] = chances.get(int(option), 0.0) + chance
                rows.append(([*context, *map(int, tokens[begin:cell])], chances))
    return rows


def plain_logits(model, contexts):
    return torch.stack([model(torch.tensor([context])).logits[0, -1] for context in contexts])


def test_logits_are_those_of_transformers(model):
    with torch.no_grad():
        fused = FusedLlama(model).logits(batch_of(LESSONS))
        plain = plain_logits(model, [context for context, _ in plain_rows(LESSONS)])
    torch.testing.assert_close(fused, plain, rtol=0, atol=5e-5)


def test_gradients_are_those_of_the_cross_entropy_with_the_chances(model):
    rows, batch = plain_rows(LESSONS), batch_of(LESSONS)
    logprobs = plain_logits(model, [context for context, _ in rows]).log_softmax(-1)
    wanted = torch.zeros_like(logprobs)
    for row, (_, chances) in zip(wanted, rows, strict=True):
        for token, chance in chances.items():
            row[token] += chance
    torch.testing.assert_close(wanted.sum(-1), torch.ones(len(rows)))
    (-(wanted * logprobs).sum() / len(rows)).backward()

    llama = FusedLlama(model)
    found = imitation_gradients(llama, batch, len(batch.where))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    of_plain = FusedLlama(model)  # the gradients in fused form, by the same permutation
    for fused, plain in zip(found, of_plain.weights, strict=True):
        torch.testing.assert_close(fused, plain.detach(), rtol=1e-3, atol=2e-6)


def test_weights_come_back_as_they_went_in(model, world_tokenizer):
    other = new_model(world_tokenizer, seed=1)
    FusedLlama(model).write_into(other)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_key_value_heads", 1), ("tie_word_embeddings", False), ("attention_bias", True)],
)
def test_what_the_fused_form_does_not_have_is_refused(name, value):
    sizes = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = {"num_attention_heads": 2, "tie_word_embeddings": True, **sizes, name: value}
    with pytest.raises(ModelError, match=name):
        FusedLlama(LlamaForCausalLM(LlamaConfig(**config)))
