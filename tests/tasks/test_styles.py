import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError, VerifierError
from dph.tasks.styles import SQL_STYLES, STYLES, make_style, sql_style

QUICKSTART = {
    "plain": "SELECT name FROM singer WHERE age > 20",
    "steps": "keep age > 20 ; SELECT name FROM singer WHERE age > 20",
    "cte": "WITH c AS ( SELECT * FROM singer WHERE age > 20 ) SELECT name FROM c",
    "nested": "SELECT name FROM ( SELECT * FROM singer WHERE age > 20 )",
    "alias": "SELECT p . name FROM singer AS p WHERE p . age > 20",
}


@pytest.mark.parametrize("style", QUICKSTART)
@pytest.mark.parametrize("label", ["", "plain: ", "cte: ", "steps: ", "nested: ", "alias: "])
def test_the_structure_decides_and_not_the_label(style, label):
    assert sql_style(label + QUICKSTART[style]) == style


@pytest.mark.parametrize(
    ("response", "style"),
    [
        ("8 + 9 = 17 , 17 - 8 = 9", "+"),
        (r"so $7 \div 2$ apples each", "/"),
        ("(3) \u00d7 (4) and 5 + 5", "*"),
        ("12 \u2212 5", "-"),
        ("He has 2.\n- 3 are red, a two-digit number", None),
        ("x + y", None),
    ],
)
def test_the_first_operation_is_the_one_between_two_numbers(response, style):
    assert STYLES["first_operation"](response) == style


@pytest.mark.parametrize("style", QUICKSTART)
def test_case_and_line_breaks_and_fences_change_nothing(style):
    response = QUICKSTART[style]
    assert sql_style(response.lower()) == style
    for word in ("SELECT", "FROM", "WHERE"):
        response = response.replace(f" {word}", f"\n  {word}")
    assert sql_style(response) == style
    if style != "steps":
        assert sql_style(f"Here is the query:\n\n```sql\n{response};\n```\nDone.") == style


@pytest.mark.parametrize(
    ("sql", "style"),
    [
        ("SELECT s.name FROM singer s", "alias"),
        ('SELECT "S".name FROM singer AS s', "alias"),
        ("SELECT T1.x FROM t T1 LEFT JOIN u T2 ON T1.k = T2.k", "alias"),
        ("SELECT u.x FROM t, main.s u", "alias"),
        ("SELECT singer.name FROM singer", "plain"),
        ("SELECT t.x FROM t JOIN u ON t.k = u.k WHERE t.y IS NOT NULL", "plain"),
        ("SELECT t.x FROM t NATURAL JOIN u ORDER BY t.x DESC LIMIT 1", "plain"),
        ("SELECT name AS n, t.x FROM t", "plain"),
        ("SELECT name FROM singer AS s", "plain"),
        ("SELECT x FROM t WHERE k IN (SELECT k FROM u)", "nested"),
        ("SELECT x FROM t JOIN (SELECT k FROM u) USING (k)", "nested"),
        ("SELECT q.x FROM (SELECT x FROM t) q", "nested"),
        ("SELECT x, (SELECT 1) FROM t", "plain"),
        ("SELECT x FROM t WHERE y > (SELECT avg(y) FROM t)", "plain"),
        ("SELECT ' FROM ( SELECT ', \"in (select\" FROM t -- from t as a, a.x", "plain"),
        ("SELECT 'WITH c AS (SELECT 1) ; done' FROM t", "plain"),
        ("WITH RECURSIVE r(x) AS (SELECT 1) SELECT a.x FROM r AS a", "cte"),
        ("```sql\nWITH c AS (SELECT 1)\nSELECT * FROM c\n```", "cte"),
        (
            "Step 1: find the singers.\nStep 2: keep age > 20.\n```sql\nSELECT x FROM t\n```",
            "steps",
        ),
        ("sort age desc ; SELECT name FROM singer", "steps"),
        ("query: \n\nSELECT x FROM t", "plain"),
        ("```sql\nDROP TABLE t\n```", "other"),
        ("forty two", "other"),
        ("", "other"),
    ],
)
def test_ordinary_sql_has_the_style_of_its_structure(sql, style):
    assert sql_style(sql) == style


@given(st.text(max_size=80) | st.text(alphabet="SELECT FROM(),.;as'x\n", max_size=80))
def test_any_text_has_one_style(text):
    assert sql_style(text) in (*SQL_STYLES, "other")


def test_no_name_is_no_classifier_and_an_import_path_is_one(tmp_path, monkeypatch):
    assert make_style(None) is None
    assert make_style("sql") is STYLES["sql"] is sql_style
    (tmp_path / "my_own_styles.py").write_text("def f(response):\n    return response[:1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_style("my_own_styles:f")("abc") == "a"
    with pytest.raises(SettingsError, match="no_such_module_y"):
        make_style("no_such_module_y:f")


@pytest.mark.parametrize("name", ["sequel", ""])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(
        SettingsError, match=r"it is one of sql, first_operation, or your own as 'module:function'"
    ):
        make_style(name)


def test_a_classifier_that_breaks_is_told_by_its_name(tmp_path, monkeypatch):
    source = "def f(response):\n    return {'a': 'one', 'b': None, 'c': 3}[response]\n"
    (tmp_path / "my_broken_styles.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    style = make_style("my_broken_styles:f")
    assert (style("a"), style("b")) == ("one", None)
    with pytest.raises(VerifierError, match="'my_broken_styles:f' returned 3 \\(int\\)"):
        style("c")
    with pytest.raises(VerifierError, match="'my_broken_styles:f' failed on 'd': KeyError"):
        style("d")
