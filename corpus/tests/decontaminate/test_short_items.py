"""Items of tests that are shorter than ten words, or in a script without blanks."""

import pytest

from case_tables import table
from dph_corpus.cli import main
from dph_corpus.decontaminate import LENGTHS, decontaminate
from dph_corpus.documents import Document
from small_corpora import dropped, rows_file, small_corpus

FILLER = "\n".join(f"value_{n} = combine_{n}(left_{n}, right_{n})" for n in range(30))
SEVEN = "Reverse the vowels of a given sentence"
EIGHT = "Count islands of ones in a binary matrix"
CHINESE = "统计给定文本里每个汉字出现的次数并按次数从高到低依次输出结果"
FOURTEEN = CHINESE[:14]


def made(tmp_path, rows, texts):
    """What became of documents with ``texts``, and what the stage says of the test set."""
    path = rows_file(tmp_path / "set.jsonl", rows)
    documents = [
        Document.of(f"{text}\n{FILLER}", id=str(number), path=f"{number}.py")
        for number, text in enumerate(texts)
    ]
    corpus = small_corpus(tmp_path / "in", documents)
    found = decontaminate(corpus, tmp_path / "out", sets={"set": path})
    notes = {int(name): row["note"] for name, row in dropped(found).items()}
    return notes, found.manifest.history[-1]["settings"]["too_short"]


@pytest.mark.parametrize(("row", "text"), table("decontaminate/cases.toml")["whole"])
def test_a_document_with_a_whole_item_goes_and_the_others_stay(tmp_path, row, text):
    gone, short = made(tmp_path, [row], [text, "# nothing of it"])
    assert (set(gone), short) == ({0}, {})


@pytest.mark.parametrize("text", table("decontaminate/cases.toml")["parts"])
def test_a_part_of_an_item_is_no_reason(tmp_path, text):
    rows = [{"text": EIGHT}, {"text": CHINESE}, {"text": f"把{FOURTEEN}"}]
    assert made(tmp_path, rows, [f"# {text}"]) == ({}, {})


@pytest.mark.parametrize("item", table("decontaminate/cases.toml")["trivial"])
def test_a_trivial_item_drops_nothing_and_is_counted(tmp_path, item):
    rows = [{"text": item, "code": "def f(x):\n    return [y for y in x if y]"}, {"text": EIGHT}]
    assert made(tmp_path, rows, [f"# {item}", "# more"]) == ({}, {"set": [1, 2]})


def test_texts_around_what_is_asked_are_not_looked_for_as_a_whole(tmp_path):
    about = "Introductory problems of dynamic programming and greedy"
    rows = [{"question": EIGHT, "category": about, "source": "a b"}]
    assert len(about.split()) in LENGTHS[False][:-1]
    assert made(tmp_path, rows, [f"# {about}"]) == ({}, {})


def test_what_is_shared_is_told_as_it_stands(tmp_path):
    gone, _ = made(tmp_path, [{"text": SEVEN}, {"text": CHINESE}], [f"# {SEVEN}", CHINESE])
    assert gone == {0: SEVEN.lower(), 1: CHINESE[:20]}


def test_the_command_says_how_many_items_are_too_short(tmp_path, capsys):
    rows_file(tmp_path / "set.jsonl", [{"text": text} for text in ("Sort a list", EIGHT)])
    small_corpus(tmp_path / "in", [Document.of(FILLER, id="a", path="a.py")])
    given = ["--input", f"{tmp_path}/in", "--out", f"{tmp_path}/out", "--workers", "1"]
    assert main(["decontaminate", *given, "--tests", f"s={tmp_path}/set.jsonl"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "s: 1 of 2 items are too short to be found by their text"
