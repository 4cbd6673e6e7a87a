import pytest

from dph_corpus.signals.own_signals import data_share, parsed_share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("SELECT a FROM t; -- one; two\nSELECT 'x;y';", 1.0),
        ("SELECT a FROM t; SELECT FROM WHERE ((;", 0.5),
        ("SELECT '--' FROM t", 1.0),
        ("INSERT INTO t VALUES ('it\\'s; -- x');SELECT 1", 1.0),
        ("SELECT `a;b` FROM t", 1.0),
        ("SELECT $x$;--$x$", 1.0),
        ("SELECT '/* a', \"-- b\" FROM t -- it's\n; SELECT 'c */' FROM t", 1.0),
        ("SELECT {{ column }} FROM t", None),
        ("-- nothing\n", None),
        ("SELECT " + "(" * 5000, 0.0),
    ],
)
def test_statements_that_parse_in_one_dialect_are_counted(text, share):
    assert parsed_share(text) == share


def test_a_dump_is_data():
    assert data_share("INSERT INTO t VALUES (1);") == 1.0
    assert data_share("SELECT 1;") == 0.0
