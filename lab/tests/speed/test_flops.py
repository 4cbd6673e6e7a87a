import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lab.benchmarks.speed.flops import Group, forward_flops, groups_of, layer_weights, update_flops
from lab.benchmarks.speed.shapes import TINY, TINY_MODEL
from lab.benchmarks.speed.world import World, build_model


def test_the_linear_part_is_what_torch_counts():
    model = build_model(World(size=TINY_MODEL, shape=TINY))
    ids = torch.randint(2, TINY_MODEL.vocabulary, (1, 10))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False, logits_to_keep=4)
    counted = {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}
    products = sum(n for op, n in counted.items() if "attention" not in op)
    # Seven prompt tokens and a completion of four, of which the last is not read: ten tokens.
    head = 2 * TINY_MODEL.vocabulary * TINY_MODEL.hidden * 4
    assert products == 2 * layer_weights(TINY_MODEL) * 10 + head


def test_attention_counts_every_pair_of_query_and_visible_key_once():
    group = Group(3, (2, 4))
    # Prompt: 1 + 2 + 3. The first completion reads one token, which sees 4 keys; the second three.
    pairs = 6 + 4 + (4 + 5 + 6)
    flops = forward_flops(TINY_MODEL, [group])
    linear = 2 * layer_weights(TINY_MODEL) * (3 + 1 + 3)
    head = 2 * TINY_MODEL.vocabulary * TINY_MODEL.hidden * 6
    assert flops - linear - head == 4 * TINY_MODEL.layers * TINY_MODEL.hidden * pairs


def test_a_prompt_counts_once_a_group_and_the_backward_pass_twice():
    together = forward_flops(TINY_MODEL, [Group(50, (5, 5))])
    apart = forward_flops(TINY_MODEL, [Group(50, (5,)), Group(50, (5,))])
    assert together < 0.6 * apart
    assert update_flops(TINY_MODEL, [Group(50, (5,))]) == pytest.approx(1.5 * apart)


def test_lengths_fall_into_groups_in_order():
    assert groups_of(9, [1, 2, 3, 4], 2) == [Group(9, (1, 2)), Group(9, (3, 4))]
