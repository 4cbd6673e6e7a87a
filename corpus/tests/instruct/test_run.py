import json

import pytest

from dph.errors import DataError, SettingsError
from dph_corpus.instruct import STAGES, instruct
from small_corpora import rows_file


def pairs(count, name):
    return [{"prompt": f"{name} {n}", "response": f"answer {n}"} for n in range(count)]


@pytest.fixture
def parts(tmp_path):
    return {
        "a": rows_file(tmp_path / "a.jsonl", [*pairs(20, "a"), *pairs(3, "a")]),
        "b": rows_file(tmp_path / "b.jsonl", pairs(5, "b")),
    }


def rows_of(made):
    return [json.loads(line) for line in made.path.read_text().splitlines()]


def test_each_part_gives_its_number_and_a_shortfall_is_told_and_not_filled(parts, tmp_path):
    made = instruct(parts, tmp_path / "out", quotas={"a": 8, "b": 9})
    rows = rows_of(made)
    assert [sum(row["source"] == name for row in rows) for name in "ab"] == [8, 5]
    assert made.manifest["short"] == {"a": 0, "b": 4}
    assert made.manifest["left_out"] == {"copy": 3, "quota": 12}
    assert made.manifest["rows"] == 13 == len(rows)


def test_the_rows_do_not_depend_on_the_order_of_the_files(parts, tmp_path):
    made = instruct(parts, tmp_path / "out", quotas={"a": 8, "b": 3})
    backwards = {
        "b": rows_file(tmp_path / "b2.jsonl", pairs(5, "b")[::-1]),
        "a": rows_file(tmp_path / "a2.jsonl", pairs(20, "a")[::-1]),
    }
    again = instruct(backwards, tmp_path / "again", quotas={"b": 3, "a": 8})
    assert again.path.read_bytes() == made.path.read_bytes()


def test_more_rows_of_a_part_are_the_same_and_more(parts, tmp_path):
    few = rows_of(instruct(parts, tmp_path / "few", quotas={"a": 4, "b": 1}))
    many = rows_of(instruct(parts, tmp_path / "many", quotas={"a": 9, "b": 5}))
    assert [row for row in many if row in few] == few


def test_rows_of_a_test_set_go_for_their_prompt_their_words_or_a_function(tmp_path):
    ten = "one two three four five six seven eight nine ten"
    part = rows_file(
        tmp_path / "a.jsonl",
        [
            {"prompt": "Sum  the LIST", "response": "sum(x)"},
            {"prompt": "say it", "response": f"{ten}, eleven"},
            {"prompt": "write it", "response": "def has_close(x):\n    return x"},
            {"prompt": "stay", "response": "one two three"},
            {"messages": [{"role": "user", "content": ten}, {"role": "assistant", "content": "a"}]},
        ],
    )
    tests = rows_file(
        tmp_path / "tests.jsonl",
        [{"prompt": "sum the list"}, {"question": f"zero {ten}"}, {"entry_point": "has_close"}],
    )
    made = instruct({"a": part}, tmp_path / "out", quotas={"a": 9}, sets={"he": tests})
    assert [row["prompt"] for row in rows_of(made)] == ["stay"]
    assert made.manifest["left_out"] == {"prompt:he": 1, "words:he": 2, "entry_point:he": 1}
    assert made.manifest["examples"]["prompt:he"] == ["Sum  the LIST\nsum(x)"]
    only = instruct(
        {"a": part}, tmp_path / "only", quotas={"a": 9}, sets={"he": tests}, checks=["prompt"]
    )
    assert only.manifest["left_out"] == {"prompt:he": 1}


def test_a_test_question_is_found_in_a_chat_and_under_a_system_message(tmp_path):
    def chat(*texts):
        roles = ["user"] if len(texts) == 1 else ["system", "user", "assistant"]
        return [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]

    part = rows_file(
        tmp_path / "a.jsonl",
        [
            {"prompt": "What is 2+2?", "response": "4"},
            {"messages": chat("Be brief.", "What is 3+3?", "6")},
            {"prompt": "What is 5+5?", "response": "10"},
        ],
    )
    tests = rows_file(
        tmp_path / "tests.jsonl", [{"prompt": chat("What is 2+2?")}, {"prompt": "What is 3+3?"}]
    )
    made = instruct({"a": part}, tmp_path / "out", quotas={"a": 9}, sets={"t": tests})
    assert [row["prompt"] for row in rows_of(made)] == ["What is 5+5?"]
    assert made.manifest["left_out"] == {"prompt:t": 2}


def test_a_finished_one_is_kept_until_a_file_or_a_number_changes(parts, tmp_path):
    first = instruct(parts, tmp_path / "out", quotas={"a": 8, "b": 3})
    written = first.path.stat().st_mtime_ns
    assert instruct(parts, tmp_path / "out", quotas={"a": 8, "b": 3}).manifest == first.manifest
    assert first.path.stat().st_mtime_ns == written
    assert instruct(parts, tmp_path / "out", quotas={"a": 7, "b": 3}).manifest["rows"] == 10
    first.path.write_text("")
    assert instruct(parts, tmp_path / "out", quotas={"a": 7, "b": 3}).manifest["rows"] == 10
    assert len(rows_of(first)) == 10


@pytest.mark.parametrize(
    ("quotas", "checks", "said"),
    [
        ({"a": 1}, ["words"], "parts a, b; rows a"),
        ({"a": 1, "b": 0}, ["words"], "rows of b must be at least 1, got 0"),
        ({"a": 1, "b": 1}, ["letters"], "a check is one of .* got 'letters'"),
    ],
)
def test_what_does_not_fit_is_told(parts, tmp_path, quotas, checks, said):
    with pytest.raises(SettingsError, match=said):
        instruct(parts, tmp_path / "out", quotas=quotas, checks=checks)


def test_opencoders_first_stage_has_four_million_rows():
    assert sum(STAGES["stage1"].values()) == 4_000_000
    assert sum(STAGES["stage2"].values()) == 36_000 + 111_000 + 110_000 + 110_000


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "a"}, "a row must have a prompt and a response, or messages"),
        ({"messages": 5}, "a row must have a prompt and a response, or messages"),
        ({"messages": {"content": "a"}}, "a row must have a prompt and a response, or messages"),
        ({"prompt": "a", "response": "b", "score": float("nan")}, "a row must be JSON"),
        ({"prompt": "a\ud800", "response": "b"}, "the text is not Unicode"),
        ({"prompt": "a", "response": "b", "kind": "\ud800"}, "the text is not Unicode"),
    ],
)
def test_a_row_that_cannot_be_written_is_refused_by_its_place(tmp_path, row, why):
    part = rows_file(tmp_path / "a.jsonl", [{"prompt": "a", "response": "b"}, row])
    with pytest.raises(DataError, match=rf"a\.jsonl.*2.*{why}"):
        instruct({"a": part}, tmp_path / "out", quotas={"a": 2})
