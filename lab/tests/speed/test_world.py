import torch

from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.shapes import TINY, TINY_MODEL, Shape
from lab.benchmarks.speed.world import World, build_model, build_tokenizer, make_prompts, reward

WORLD = World(size=TINY_MODEL, shape=TINY)


def test_the_same_seed_gives_both_sides_the_same_weights():
    one, other = build_model(WORLD), build_model(WORLD)
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert one.generation_config.eos_token_id == list(WORLD.stop_tokens)


def test_prompts_differ_and_have_exactly_the_tokens_of_the_shape():
    prompts = make_prompts(WORLD, 5)
    encoded = build_tokenizer(TINY_MODEL)(prompts)["input_ids"]
    assert [len(ids) for ids in encoded] == [TINY.prompt] * 5
    assert len(set(prompts)) == 5


def test_the_reward_is_the_share_of_even_words():
    assert reward("w2 w3 w4 w5") == 0.5
    assert reward("") == 0.0


def test_answers_that_are_cut_off_are_graded_so_that_no_group_is_left_out():
    world = World(size=TINY_MODEL, shape=Shape(prompt=12, completion=9, prompts=2, samples=4))
    minibatch = Ours(world, build_model(world)).next_minibatch()
    rows = [row for group in minibatch.groups for row in group]
    assert len(rows) == 8
    assert sum(len(row.completion_ids) == 9 for row in rows) > 4
    assert all(any(row.advantage != 0 for row in group) for group in minibatch.groups)


def test_a_bench_step_takes_time_and_moves_the_weights():
    model = build_model(WORLD)
    before = [p.detach().clone() for p in model.parameters()]
    taken = Ours(WORLD, model).step()
    assert 0 < taken.update < taken.step
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
