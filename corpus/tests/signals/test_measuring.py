"""Every signal against the values recorded from the released filter, and on hostile files."""

import math

import pyarrow.parquet as pq
import pytest

from dph_corpus.signals.measuring import measure, signal_groups
from dph_corpus.signals.view import FileView
from opencoder_files import opencoder_files
from shared_data import SOME_AND_ALL, shared_data

UNMEASURED = "qsc_doc_frac_words_redpajama_stop"
"""Has no threshold, and needs another project's list of words."""


def measured(record):
    view = FileView(
        record["text"],
        path=record["path"],
        bytes=record["bytes"],
        language=record["program_lang"],
        natural_language=record["lang"],
    )
    return measure(view, signal_groups(record["doc_type"], record["program_lang"])).values


def agrees(ours, recorded):
    if ours is None or recorded is None:
        return ours is recorded
    return math.isclose(ours, recorded, abs_tol=1e-6, rel_tol=0)


@SOME_AND_ALL
def test_signals_are_those_of_the_released_filter(every):
    timed_out = {
        row["id"]
        for row in pq.read_table(shared_data("opencoder") / "files.parquet").to_pylist()
        if row["timing"]
    }
    files = opencoder_files()[::every]
    ours = {r["id"]: measured(r) for r in files if r["id"] not in timed_out}
    rows = pq.read_table(shared_data("opencoder") / "signals.parquet").to_pylist()
    compared = [r for r in rows if r["id"] in ours and r["signal"] != UNMEASURED]
    wrong = [
        (row["id"], row["signal"], row["value"])
        for row in compared
        if not agrees(ours[row["id"]].get(row["signal"]), row["value"])
    ]
    assert len(compared) > (98_000 if every == 1 else 2_000)
    assert wrong == []


HOSTILE = {
    "nothing": "",
    "NUL bytes": "a\x00b\n" * 50,
    "half of a surrogate pair": "x = '\ud83d'\n" * 20,
    "a long line": "a" * 2_000_000,
    "open brackets": "(" * 50_000,
    "open tags": "<" * 50_000 + "![",
    "nested brackets": "[" * 3000 + "]" * 3000,
    "nested tags": "<div>" * 20_000,
    "a long chain": "x = " + " + ".join(["1"] * 20_000),
    "words far apart": "word    " * 3000,
    "blank lines": "\n" * 100_000,
    "unclosed quotes": "'\n\"\n" * 20_000,
    "an unclosed comment": "/* " * 1_000,
    "control characters": "".join(map(chr, range(32))) * 100,
    "lone carriage returns": "x = 1\r" * 1000,
    "unclosed links": "(https://" * 2_000,
}
LONG = ("nested tags", "a long line", "words far apart", "unclosed quotes", "open brackets")
KINDS = [
    *(("code", name) for name in ("c", "csharp", "go", "html", "java", "javascript", "python")),
    *(("code", "perl"), ("code", "unheard of"), ("data", "json"), ("text", "text")),
]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=[pytest.mark.slow] * (name in LONG))
        for name, text in HOSTILE.items()
    ],
)
def test_every_file_gets_values_or_a_reason(text):
    for doc_type, language in KINDS:
        view = FileView(text, path="a", bytes=len(text), language=language)
        groups = signal_groups(doc_type, language)
        found = measure(view, groups)
        for value in found.values.values():
            assert value is None or math.isfinite(value)
        if not found.failures:
            assert set(found.values) == {signal.name for group in groups for signal in group}


def test_a_failure_ends_its_group_and_no_other():
    view = FileView("日本語\n" * 3, language="python", natural_language="ja")
    found = measure(view, signal_groups("code", "python"))
    assert list(found.failures) == ["qsc_code_num_words"]
    assert "qsc_code_num_chars" not in found.values
    assert found.values["qsc_codepython_cate_ast"] == 1.0


def test_files_of_unknown_type_have_no_signals():
    assert signal_groups("unknown", "") == ()
