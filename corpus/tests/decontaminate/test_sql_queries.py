import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.decontaminate import normalised_queries

QUERY = "SELECT name FROM singer AS s WHERE s.age <> 20"


@pytest.mark.parametrize(
    "spelt",
    [
        "select NAME from singer s where s.AGE != 20",
        "SELECT `name`\nFROM [singer] s -- a comment\nWHERE s.age<>20;",
        '/* c */ SELECT "name" FROM singer AS s WHERE s . age != 20 ;;',
    ],
)
def test_spelling_does_not_count(spelt):
    assert list(normalised_queries(spelt)) == list(normalised_queries(QUERY))


@pytest.mark.parametrize(
    "other", [QUERY.replace("20", "21"), QUERY.replace("name", "id"), QUERY.replace("<>", "=")]
)
def test_what_is_asked_counts(other):
    assert list(normalised_queries(other)) != list(normalised_queries(QUERY))


def test_a_script_is_cut_into_its_statements_and_short_ones_are_anybodys():
    script = f"{QUERY}; SELECT count(*); SELECT 'a;b', c, d FROM t WHERE e = 1"
    first, second = normalised_queries(script)
    assert first == next(normalised_queries(QUERY))
    assert second.startswith("select 'a;b' , c")


@given(st.text())
def test_any_text_has_an_answer(text):
    assert all(isinstance(query, str) for query in normalised_queries(text))
