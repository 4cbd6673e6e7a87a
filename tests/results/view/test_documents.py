import pytest

from dph.results.view.app import LONGEST
from live_server import request
from report_runs import HOSTILE, HOSTILE_ID, LOST, SETS

ALL = {"set": "in_domain", "shown": "r0 r1 r2"}


def ids(server, **words):
    return [line["id"] for line in server.get("problems", **ALL, **words)["problems"]]


def test_the_index_names_runs_sets_outcomes_and_styles(server):
    index = server.get("index")
    assert [run["label"] for run in index["runs"]] == ["Base model", "DPH-F", "GRPO"]
    assert {one["set"]: one["size"] for one in index["sets"]} == {
        "in_domain": SETS["in_domain"] + 1,
        "cross_domain": SETS["cross_domain"],
    }
    assert index["seen"] == ["CORRECT", "WRONG"]
    assert set(index["styles"]) == {"plain", "cte", "nested", "other"}
    assert {chart["section"] for chart in index["charts"]} == {"pass_at_k", "front", "training"}


def test_pages_of_the_list_are_the_whole_list(server):
    whole = ids(server)
    assert len(whole) == SETS["in_domain"] + 1
    pages = [ids(server, first=first, count=10) for first in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [one for page in pages for one in page] == whole


def test_what_was_lost_is_found_once_the_runs_were_compared(server):
    found = server.get("problems", **ALL, change="lost", run="r2")
    assert found["count"] == 1
    line = found["problems"][0]
    assert line["id"] == LOST
    assert line["runs"]["r2"] == {"samples": 8, "correct": 0, "greedy": 0, "change": "lost"}
    assert line["runs"]["r0"]["correct"] == 8


def test_search_looks_into_questions_and_if_asked_into_answers(server):
    assert set(ids(server, q="ABOVE 7")) == {"in_domain-0007", "in_domain-0017"}
    assert ids(server, q='"above 7 of"') == ["in_domain-0007"]
    assert ids(server, q="zero bell") == []
    assert ids(server, q="zero bell", answers=1) == [HOSTILE_ID]


def test_a_problem_has_grouped_answers_and_its_neighbours_in_the_list(server):
    words = {**ALL, "id": LOST, "sort": "r2", "down": "0"}
    found = server.get("problem", **words)
    assert found["problem"]["fields"]["gold_sql"] == "SELECT rooms FROM hotel WHERE stars > 0"
    answers = found["runs"]["r2"]["answers"]
    assert sorted(i for one in answers for i in one["samples"]) == [*range(-1, 8)]
    counts = [len(one["samples"]) for one in found["runs"]["r0"]["answers"]]
    assert sum(counts) == 9
    listed = ids(server, sort="r2")
    at = listed.index(LOST)
    assert (found["at"], found["of"]) == (at, len(listed))
    assert found["next"] == listed[at + 1]
    assert found["previous"] == (listed[at - 1] if at else None)


def test_a_long_answer_comes_cut_and_whole_when_it_is_asked_for(server):
    words = {"set": "in_domain", "id": HOSTILE_ID, "run": "r0"}
    answers = server.get("problem", **ALL, id=HOSTILE_ID)["runs"]["r0"]["answers"]
    long = next(one for one in answers if one["length"] == len(HOSTILE[3]))
    assert len(long["text"]) == LONGEST
    assert server.get("text", **words, sample=long["samples"][0]) == HOSTILE[3]
    rest = server.get("answers", **words, first=1)
    assert [one["samples"] for one in rest] == [one["samples"] for one in answers[1:]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("problems?set=../../etc", 404),
        ("problem?set=in_domain&id=../../../etc/passwd", 404),
        ("text?set=in_domain&id=in_domain-0000&run=/etc/passwd&sample=0", 404),
        ("text?set=in_domain&id=in_domain-0000&run=r0&sample=99", 404),
        ("problems?set=in_domain&first=x", 400),
        ("problems?set=in_domain&from=1e9", 400),
        ("problems?set=in_domain&q=" + "a" * 1001, 400),
    ],
)
def test_what_is_not_there_is_not_found_and_what_is_no_number_is_refused(server, path, status):
    assert request(server.port, f"/api/{path}")[0] == status
