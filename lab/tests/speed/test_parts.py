import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lab.benchmarks.speed.flops import Group, forward_flops, layer_weights, update_flops
from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.profile import spent_in_update
from lab.benchmarks.speed.rows import make_row, merge_rows, read_rows, write_rows
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.shapes import TINY, TINY_MODEL, Shape, stop_probability
from lab.benchmarks.speed.timing import Timing, interleaved, relative_error
from lab.benchmarks.speed.world import World, build_model

WORLD = World(size=TINY_MODEL, shape=TINY)


def test_the_linear_part_is_what_torch_counts():
    model = build_model(WORLD)
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


def test_the_shares_of_an_update_add_up_to_all_of_it():
    spent = spent_in_update(WORLD)
    assert spent.keys() >= {"attention", "matrix products", "optimizer", "elsewhere"}
    assert spent["matrix products"] > 0
    assert sum(spent.values()) == pytest.approx(1, abs=0.01)


def a_row(case="a", *, threads=1, ours=2.0, peer=6.0):
    return make_row(
        "sampling",
        case,
        Run(threads=threads),
        shape="prompt 1",
        ours=Timing((ours, ours, ours + 1)),
        peer="TRL",
        peer_timing=Timing((peer,)),
        floor_s=0.123456,
    )


def test_the_ratio_is_peer_over_ours_of_the_medians():
    made = a_row()
    assert made["ratio"] == 3
    assert made["ours_range"] == [2, 3]
    assert made["repeats"] == 3
    assert made["floor_s"] == 0.1235


def test_a_new_row_takes_the_place_of_the_old_one_of_its_case_only(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read_rows(path) == []
    write_rows(path, [a_row("a"), a_row("b"), a_row("a", threads=2)])
    merged = merge_rows(read_rows(path), [a_row("a", ours=1.0)])
    assert [(r["case"], r["threads"], r["ratio"]) for r in merged] == [
        ("a", 1, 6),
        ("b", 1, 3),
        ("a", 2, 3),
    ]


def test_the_stop_probability_gives_the_mean_of_a_cut_geometric_length():
    q, longest = stop_probability(20, 64), 64
    mean = sum(n * q * (1 - q) ** (n - 1) for n in range(1, longest))
    mean += longest * (1 - q) ** (longest - 1)
    assert mean == pytest.approx(20, abs=1e-6)


def test_a_mean_that_no_stop_probability_gives_is_refused():
    for mean in (1, 64, 100):
        with pytest.raises(ValueError, match="need 1 < mean < 64"):
            stop_probability(mean, 64)


def test_sides_take_turns_and_every_other_round_goes_backwards():
    calls = []
    times = interleaved({n: lambda n=n: calls.append(n) for n in "ab"}, repeats=2, warm_up=1)
    assert calls == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(timing.seconds) for name, timing in times.items()} == {"a": 2, "b": 2}


def test_the_relative_error_is_over_all_tensors_together():
    ours = [torch.tensor([3.0, 0.0]), torch.tensor([0.0])]
    peer = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    assert relative_error(ours, peer) == pytest.approx(4 / 5)


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
