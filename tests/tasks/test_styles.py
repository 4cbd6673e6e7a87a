import pytest

from dph.errors import SettingsError, VerifierError
from dph.tasks import STYLES, make_style, sql_style


def test_no_name_is_no_classifier():
    assert make_style(None) is None


def test_the_table_and_import_paths_name_classifiers(tmp_path, monkeypatch):
    assert make_style("sql") is STYLES["sql"] is sql_style
    (tmp_path / "my_own_styles.py").write_text("def f(response):\n    return response[:1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_style("my_own_styles:f")("abc") == "a"


@pytest.mark.parametrize("name", ["sequel", ""])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(SettingsError, match=r"it is one of sql, or your own as 'module:function'"):
        make_style(name)


def test_a_module_that_is_not_there_is_refused():
    with pytest.raises(SettingsError, match="no_such_module_y"):
        make_style("no_such_module_y:f")


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
