from lab.benchmarks.speed.rows import make_row, merge_rows, read_rows, write_rows
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.timing import Timing


def row(case="a", *, threads=1, ours=2.0, peer=6.0):
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
    made = row()
    assert made["ratio"] == 3
    assert made["ours_range"] == [2, 3]
    assert made["repeats"] == 3
    assert made["floor_s"] == 0.1235


def test_a_new_row_takes_the_place_of_the_old_one_of_its_case_only(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read_rows(path) == []
    write_rows(path, [row("a"), row("b"), row("a", threads=2)])
    merged = merge_rows(read_rows(path), [row("a", ours=1.0)])
    assert [(r["case"], r["threads"], r["ratio"]) for r in merged] == [
        ("a", 1, 6),
        ("b", 1, 3),
        ("a", 2, 3),
    ]
