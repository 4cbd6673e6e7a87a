import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import table
from dph_corpus.documents import DocType, Document
from dph_corpus.signals.python import parse_python
from dph_corpus.transform.cleaning import TransformStage, clean, findings
from opencoder_files import opencoder_files
from shared_data import SOME_AND_ALL

LABELLED = Path(__file__).with_name("labelled.txt")


def labelled():
    """Each file's language and text, and the places in it that are to be found.

    What is to be found stands in ⟦kind|...⟧. A "·" is left out: it keeps what looks like a key from
    being taken for one by whatever scans this repository.
    """
    text = LABELLED.read_text(encoding="utf-8").replace("·", "")
    for section in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = section.partition("\n")
        plain, places, last = "", set(), 0
        for match in re.finditer(r"⟦(\w+)\|(.*?)⟧", body, re.DOTALL):
            plain += body[last : match.start()]
            places.add((len(plain), len(plain) + len(match[2]), match[1]))
            plain, last = plain + match[2], match.end()
        yield head.partition(":")[0], plain + body[last:], places


def test_recall_and_precision_on_the_labelled_file():
    hits = found = wanted = 0
    for language, text, places in labelled():
        parses = language == "python" and parse_python(text) is not None
        ours = {(f.start, f.end, f.kind) for f in findings(text, language, parses=parses)}
        hits += len(ours & places)
        found += len(ours)
        wanted += len(places)
    assert wanted >= 35
    assert hits / wanted >= 0.95
    assert hits / found >= 0.95


def test_a_second_pass_over_the_labelled_file_changes_nothing():
    for language, text, places in labelled():
        once = clean(text, language)
        assert sum(once.counts.values()) == len(places)
        assert clean(once.text, language).text == once.text
        assert language != "python" or parse_python(once.text) is not None


PIECES = st.sampled_from(
    [
        *("a.b@c.com", "ida@mail.org ", "93.184.216.34", " 10.0.0.1", "http://u:p4ssw@h.com"),
        *("password = 'tr0ub4dor&3'\n", "# Copyright 2020 A\n", "# hi\n", "#\n", "\n", "x = 1\n"),
        *("'", '"', "/* (c) 2019 B\n\n   hello */\n", "#!/bin/sh\n", "def f():\n"),
        "# -*- coding: utf-8 -*-\n",
    ]
)


@given(st.lists(PIECES, max_size=10).map("".join), st.sampled_from(["python", "c", "sql", "text"]))
def test_cleaning_is_idempotent_and_python_still_parses(text, language):
    once = clean(text, language).text
    assert clean(once, language).text == once
    if language == "python" and parse_python(text) is not None:
        assert parse_python(once) is not None


def test_code_that_looks_like_an_address_is_left_in_python():
    text = "y = weights@inputs.T\nz = left@right.com\n"
    assert clean(text, "python").text == text


@pytest.mark.parametrize(("given", "left", "counts"), table("transform/cases.toml")["counted"])
def test_what_was_taken_out_is_counted_and_what_breaks_python_stays_alone(given, left, counts):
    cleaned = clean(given.replace("·", ""), "python")
    assert (cleaned.text, cleaned.counts) == (left.replace("·", ""), counts)


@SOME_AND_ALL
def test_real_files_are_cleaned_once_and_for_all(every):
    for record in opencoder_files()[:: 5 * every]:
        if len(record["text"]) < 500_000:
            once = clean(record["text"], record["program_lang"]).text
            assert clean(once, record["program_lang"]).text == once, record["id"]
            if record["program_lang"] == "python" and parse_python(record["text"]) is not None:
                assert parse_python(once) is not None, record["id"]


def test_a_changed_document_has_a_new_digest_and_its_changes_are_listed():
    given = Document.of(
        "# (c) 2020 A\nx = 'ida@mail.org'\n",
        id="a",
        path="a.py",
        language="python",
        doc_type=DocType.CODE,
    )
    outcome = TransformStage()(given)
    assert outcome.document == given.with_text("x = '<email>'\n")
    assert outcome.rows["changes"] == [
        {"id": "a", "kind": "email", "count": 1},
        {"id": "a", "kind": "notice", "count": 1},
    ]
    assert outcome.counts["documents changed"] == 1


def test_a_clean_document_stays_as_it_is():
    given = Document.of("x = 1\n", id="a", path="a.py", language="python")
    outcome = TransformStage()(given)
    assert outcome.document is given
    assert outcome.rows["changes"] == []
