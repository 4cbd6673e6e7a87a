import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.records import Problem
from dph.tasks.problems import (
    load_problems,
    malformed_rows,
    problems_fingerprint,
    prompt_text,
    renamed,
    save_problems,
)

CHAT = [{"role": "user", "content": "2 + 2?"}]

ROWS = [
    {"problem_id": "a", "prompt": "1 + 1?", "answer": "2", "unit": None},
    {"problem_id": "b", "prompt": CHAT, "answer": "4", "tags": ["é", {"x": 1.5}]},
]

PROBLEMS = [
    Problem(problem_id="a", prompt="1 + 1?", answer={"answer": "2", "unit": None}),
    Problem(problem_id="b", prompt=tuple(CHAT), answer={"answer": "4", "tags": ["é", {"x": 1.5}]}),
]


@pytest.fixture
def jsonl(tmp_path):
    def write(*lines):
        path = tmp_path / "problems.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return path

    return write


def test_every_other_field_of_a_row_goes_into_the_answer_and_saved_problems_come_back(
    jsonl, tmp_path
):
    assert load_problems(jsonl(ROWS[0], "", ROWS[1])) == PROBLEMS
    path = tmp_path / "saved.jsonl"
    save_problems(path, PROBLEMS)
    assert load_problems(path) == PROBLEMS
    assert "é" in path.read_text(encoding="utf-8")
    assert {each.name for each in tmp_path.iterdir()} == {"problems.jsonl", "saved.jsonl"}
    assert load_problems(str(jsonl(*ROWS))) == PROBLEMS


def test_a_parquet_file_gives_the_same_problems_as_a_jsonl_file(tmp_path, jsonl):
    rows = [{"problem_id": i, "prompt": CHAT, "n": n} for i, n in ((7, 1.5), (8, None), (9, None))]
    path = tmp_path / "problems.parquet"
    pq.write_table(pa.Table.from_pylist([*rows[:2], rows[2] | {"n": float("nan")}]), path)
    assert load_problems(path) == load_problems(jsonl(*rows))
    assert problems_fingerprint(load_problems(path)) == problems_fingerprint(
        load_problems(jsonl(*rows))
    )


def test_ids_become_text_and_those_that_are_the_same_as_text_are_duplicates(jsonl):
    assert load_problems(jsonl({"problem_id": 12, "prompt": "?"}))[0].problem_id == "12"
    path = jsonl({"problem_id": 1, "prompt": "?"}, {"problem_id": "1", "prompt": "?"})
    with pytest.raises(DataError, match=r"line 2: .*'1' was used before, at .*line 1"):
        load_problems(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{not json", "not valid JSON"),
        ("[1]", "a problem is a JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ({"prompt": "?"}, "problem_id must be"),
        ({"problem_id": "", "prompt": "?"}, "problem_id must be"),
        ({"problem_id": True, "prompt": "?"}, "problem_id must be"),
        ({"problem_id": 1.5, "prompt": "?"}, "got 1.5"),
        ({"problem_id": "x"}, "prompt must be"),
        ({"problem_id": "x", "prompt": " "}, "prompt must be"),
        ({"problem_id": "x", "prompt": []}, "prompt must be"),
        ({"problem_id": "x", "prompt": [{"role": "user"}]}, "prompt must be"),
        ({"problem_id": "x", "prompt": [{"role": "user", "content": 3}]}, "prompt must be"),
        ({"problem_id": "x", "prompt": ["hello"]}, "prompt must be"),
        ({"problem_id": "a", "prompt": "again"}, "'a' was used before, at"),
    ],
)
def test_a_malformed_line_is_named_with_its_file_and_number(jsonl, line, words):
    path = jsonl(ROWS[0], "", line)
    with pytest.raises(DataError) as caught:
        load_problems(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert words in str(caught.value)


def test_a_malformed_row_of_any_format_is_named(tmp_path, jsonl):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"problem_id": "\xe9", "prompt": "?"}\n')
    with pytest.raises(DataError, match="line 1: not valid JSON"):
        load_problems(path)
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"problem_id": ["a", "b"], "prompt": ["?", None]}), path)
    with pytest.raises(DataError, match="row 2: prompt"):
        load_problems(path)
    pq.write_table(pa.table({"problem_id": ["a"], "prompt": ["?"], "raw": [b"x"]}), path)
    with pytest.raises(DataError, match="row 1, raw: JSON has no bytes"):
        load_problems(path)
    with pytest.raises(DataError, match="holds no problems"):
        load_problems(jsonl())
    path = tmp_path / "p.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(DataError, match="not a parquet file"):
        load_problems(path)


def test_dates_and_decimals_of_a_parquet_file_become_text(tmp_path):
    path = tmp_path / "p.parquet"
    row = {
        "problem_id": "a",
        "prompt": "?",
        "day": datetime.date(2024, 2, 29),
        "moment": datetime.datetime(2024, 2, 29, 12, 30),
        "price": decimal.Decimal("1.50"),
        "nested": {"days": [datetime.date(2024, 1, 1)]},
    }
    pq.write_table(pa.Table.from_pylist([row]), path)
    assert load_problems(path)[0].answer == {
        "day": "2024-02-29",
        "moment": "2024-02-29T12:30:00",
        "price": "1.50",
        "nested": {"days": ["2024-01-01"]},
    }


@pytest.mark.parametrize("name", ["problems.txt", "problems", "problems.json", "problems.gz"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(
        DataError, match=r"one of \.parquet, \.jsonl, \.jsonl\.gz, \.csv, \.csv\.gz"
    ):
        load_problems(tmp_path / name)
    with pytest.raises(DataError, match=r"\.jsonl"):
        save_problems(tmp_path / name, PROBLEMS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "words"), [({"prompt": 1}, "must not have the field"), ({"x": b"y"}, "is not JSON")]
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, answer, words):
    problem = Problem(problem_id="a", prompt="?", answer=answer)
    with pytest.raises(DataError, match=words):
        save_problems(tmp_path / "x.jsonl", [problem])
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_depends_on_content_and_order_but_not_on_the_order_of_fields():
    flipped = Problem(problem_id="a", prompt="1 + 1?", answer={"unit": None, "answer": "2"})
    assert problems_fingerprint([flipped, PROBLEMS[1]]) == problems_fingerprint(PROBLEMS)
    assert problems_fingerprint(PROBLEMS[::-1]) != problems_fingerprint(PROBLEMS)
    other = Problem(problem_id="a", prompt="1 + 1?", answer={"answer": 2, "unit": None})
    assert problems_fingerprint([other, PROBLEMS[1]]) != problems_fingerprint(PROBLEMS)
    # printf '%s\n' '{"answer":3,"problem_id":"a","prompt":"\u00e9"}' | sha256sum
    problem = Problem(problem_id="a", prompt="é", answer={"answer": 3})
    assert problems_fingerprint([problem]) == EXPECTED


EXPECTED = "d459603acb7dec328a38f7dee3a7ff3bce129ade7408b2f55f04f55a6da1bbd1"


def renamed_fields(rows, columns):
    return [row for _, row in renamed([(f"row {i}", row) for i, row in enumerate(rows)], columns)]


def test_fields_are_taken_from_the_columns_they_are_called():
    row = {"question": "2 + 2?", "solution": "4", "level": 1}
    columns = {"prompt": "question", "answer": "solution"}
    expected = {"problem_id": 1, "prompt": "2 + 2?", "answer": "4", "level": 1}
    assert renamed_fields([row], columns) == [expected]
    row = {"problem_id": "a", "prompt": "p", "answer": "q"}
    exchanged = {"problem_id": "a", "prompt": "q", "answer": "p"}
    assert renamed_fields([row], {"prompt": "answer", "answer": "prompt"}) == [exchanged]
    assert renamed_fields([row], {"answer": "prompt", "prompt": "prompt"})[0]["answer"] == "p"
    row = {"problem_id": "a", "prompt": "old", "question": "new"}
    assert renamed_fields([row], {"prompt": "question"}) == [{"problem_id": "a", "prompt": "new"}]


def test_rows_without_an_id_are_numbered(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"question": q}) + "\n" for q in ("a", "b")))
    problems = load_problems(path, columns={"prompt": "question"})
    assert [(p.problem_id, p.prompt, p.answer) for p in problems] == [
        ("1", "a", {}),
        ("2", "b", {}),
    ]
    with pytest.raises(DataError, match="problem_id must be"):
        load_problems(path)


def test_a_missing_column_is_told_with_those_that_are_there(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"question": "a", "gold": "b"}\n')
    with pytest.raises(
        DataError,
        match=r"line 1: there is no column 'text', .* for prompt; there are: question, gold",
    ):
        load_problems(path, columns={"prompt": "text"})
    assert len(list(malformed_rows(path, columns={"prompt": "text"}))) == 1


def test_a_text_is_itself_and_a_chat_is_told_by_its_roles():
    assert prompt_text(Problem(problem_id="p", prompt=" 2 + 2?\n")) == " 2 + 2?\n"
    chat = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2?"})
    told = prompt_text(Problem(problem_id="p", prompt=chat))
    assert told == "[system]\nbe brief\n\n[user]\n2 + 2?"
