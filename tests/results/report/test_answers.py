import pytest

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.results.report.answers import Limits, PackedSet, excerpts, packed
from report_runs import unpacked


def row(index, text, outcome="CORRECT", **more):
    return {
        "sample_index": index,
        "text": text,
        "outcome": outcome,
        "reason": "",
        "style": "plain",
        "reward": float(outcome == "CORRECT"),
        "tokens": 3,
        "finished": True,
        **more,
    }


ROWS = [row(-1, "a"), row(0, "b", "WRONG"), row(1, "a"), row(2, "b", "WRONG"), row(3, "c", "WRONG")]


def packed_set(rows=None, *, limits=None, tokens=None, changes=None, problems=2):
    ids = [f"p{i}" for i in range(problems)]
    return PackedSet(
        name="dev",
        problem_ids=ids,
        problems={"p0": Problem(problem_id="p0", prompt="one?", answer={"gold": "x"})},
        groups={"r0": dict.fromkeys(ids, rows or ROWS)},
        changes=changes or {},
        outcomes={name: number for number, name in enumerate(Outcome)},
        styles={},
        tokens=tokens or {},
        limits=limits or Limits(),
    )


def test_the_index_counts_samples_and_not_the_greedy_answer():
    run = packed_set(changes={"r0": {"p1": "lost"}}).index()["runs"]["r0"]
    assert run["samples"] == [4, 4]
    assert run["correct"] == [1, 1]
    assert run["greedy"] == [1, 1]
    assert run["change"] == ["", "lost"]
    names = [[list(Outcome)[i].value for i in of] for of in run["outcomes"]]
    assert names == [["CORRECT", "WRONG"]] * 2


def test_equal_answers_are_one_the_most_frequent_first_and_other_outcomes_stay_apart():
    piece = next(packed_set().pieces())
    run = piece["runs"]["r0"]
    assert run["groups"] == run["different"] == [3, 3]
    assert [piece["texts"][i] for i in run["text"][:3]] == ["b", "a", "c"]
    assert run["samples"][:3] == [[0, 2], [-1, 1], [3]]
    assert piece["texts"] == ["b", "a", "c"]  # each text once in a piece
    rows = [row(0, "a"), row(1, "a", "TIMED_OUT")]
    assert next(packed_set(rows).pieces())["runs"]["r0"]["groups"] == [2, 2]


def test_what_is_cut_is_told():
    limits = Limits(longest=2, most=1)
    rows = [row(0, "abcd") | {"reason": "why not"}, row(1, "x")]
    of = packed_set(rows, limits=limits)
    of.problems["p0"].answer.update({"tests": ["a", "b"], "n": 12})
    piece = next(of.pieces())
    assert piece["reasons"] == ["wh ... (5 more characters)"]
    fields = {"gold": "x", "tests": '[" ... (8 more characters)', "n": 12}
    assert piece["problems"][0]["fields"] == fields
    assert piece["texts"] == ["ab"]
    assert piece["lengths"] == {0: 4}
    assert piece["runs"]["r0"]["groups"] == [1, 1]
    assert piece["runs"]["r0"]["different"] == [2, 2]
    assert (piece["problems"][0]["prompt"], piece["problems"][0]["length"]) == ("on", 4)


def test_pieces_follow_each_other_and_leave_no_problem_out(monkeypatch):
    monkeypatch.setattr("dph.results.report.answers.PIECE", 5)
    pieces = list(packed_set(problems=5).pieces())
    assert len(pieces) > 1
    covered = [piece["first"] + i for piece in pieces for i in range(len(piece["problems"]))]
    assert covered == list(range(5))


def test_tokens_are_those_of_the_first_answer_that_has_them():
    tokens = {"r0": {("dev", "p0"): {2: {"pieces": ["b"], "logprob": [-1.0]}}}}
    detail = next(packed_set(tokens=tokens).pieces())["runs"]["r0"]["detail"]
    assert detail == [{"pieces": ["b"], "logprob": [-1.0]}, None, None, None, None, None]


@pytest.mark.parametrize("settings", [{"longest": 0}, {"most": 0}])
def test_limits_that_keep_nothing_are_refused(settings):
    with pytest.raises(SettingsError, match=r"at least 1|must be kept"):
        Limits(**settings)


def test_what_is_packed_comes_back_and_the_letters_mean_nothing_to_html():
    value = {"text": "</script><b>&\u202e\x00", "lone": "\ud800", "numbers": [1, None, 0.5]}
    letters = packed(value)
    assert unpacked(letters) == value
    assert set(letters) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def asked(prompt):
    return Problem(problem_id="p", prompt=prompt)


def test_an_excerpt_lacks_what_all_end_with_begins_with_a_word_and_is_of_the_last_message():
    problems = [asked(f"{x} apples\nand pears\nAnswer:") for x in ("two", "ten")]
    assert excerpts([*problems, None]) == ["two", "ten", ""]
    line = excerpts([asked("schema " * 100 + "how many hotels?")])[0]
    assert line.startswith("… schema ")
    assert line.endswith("how many hotels?")
    assert len(line) <= 98
    chat = asked(({"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2?"}))
    assert excerpts([chat]) == ["2 + 2?"]
