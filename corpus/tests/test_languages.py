import pyarrow.parquet as pq

from dph_corpus.documents import UNKNOWN, DocType, language_named, language_of, language_of_path
from shared_data import shared_data


def test_whole_names_come_before_extensions_and_case_is_passed_over_last():
    assert language_of_path("a/CMakeLists.txt").name == "cmake"
    assert language_of_path("a/notes.txt").doc_type is DocType.TEXT
    assert language_of_path("x.C").name == "cpp"
    assert language_of_path("x.c").name == "c"
    assert language_of_path("X.PY").name == "python"
    assert language_of_path("a.py/README") == language_of_path("README")
    assert language_of_path("") == language_of_path("x.never") == UNKNOWN
    assert language_of_path("table.csv").doc_type is DocType.EXCLUDED


def test_a_language_is_found_by_its_name_in_any_case():
    assert language_named("Python").doc_type is DocType.CODE
    assert language_named("C++") == language_of_path("a.cpp")
    assert language_named("C#") == language_of_path("a.cs")
    assert language_named("unknown") == UNKNOWN
    assert language_named("no such language").doc_type is DocType.UNKNOWN


def test_the_table_assigns_what_the_released_filter_assigned():
    rows = pq.read_table(shared_data("opencoder/files.parquet")).to_pylist()
    wrong = [
        row["path"]
        for row in rows
        if (found := language_of(row["filename"], row["ext"])).name
        != ("" if row["program_lang"] == "unknown" else row["program_lang"])
        or found.doc_type != row["doc_type"]
    ]
    assert wrong == []
