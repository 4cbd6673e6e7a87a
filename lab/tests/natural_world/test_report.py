import pytest

pytest.importorskip("sqlglot", reason="needs sqlglot (lab/benchmarks/requirements.txt)")

from lab.benchmarks.natural_world.report import END, START, forms_table, scores_table, write_between

FILES = [
    {"forms": {"q1": {"plain": "a"}, "q2": {}}, "tried": {"plain": 1, "nested": 3}, "refused": {}},
    {"forms": {"q3": {"plain": "b"}}, "tried": {"plain": 1, "nested": 1}, "refused": {"nested": 1}},
]
SCORES = {"greedy": 0.25, "mean": 0.2, "pass_at_k": {"16": 0.5}, "effective_styles": 3.0}


def test_forms_are_added_up_over_databases():
    table = forms_table(iter(FILES))
    assert "| plain | 2 | 2 (100%) |" in table
    assert "| nested | 4 | 3 (75%) |" in table
    assert "| cte | 0 | 0 |" in table
    assert "Of 3 queries 2 are" in table


def test_scores_are_per_cent_of_each_set():
    sets = dict.fromkeys(("in_domain", "cross_domain", "unseen"), SCORES)
    assert scores_table({"base": sets}).splitlines()[2] == (
        "| base | " + " | ".join(["25.0", "20.0", "50.0", "3.0"] * 3) + " |"
    )


def test_a_page_keeps_what_is_outside_the_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    write_between(page, "new\n")
    assert page.read_text() == f"before\n{START}\nnew\n{END}\nafter\n"


def test_a_page_without_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit, match="there is no"):
        write_between(page, "new\n")
    assert page.read_text() == "nothing\n"
