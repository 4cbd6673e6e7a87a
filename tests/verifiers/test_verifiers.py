import pytest

from dph.errors import SettingsError
from dph.verifiers import VERIFIERS, Verifier, make_verifier


@pytest.mark.parametrize("name", list(VERIFIERS))
def test_each_verifier_of_the_table_is_made_by_its_name(name, tmp_path):
    verifier = make_verifier(name, databases=tmp_path, workers=2, timeout=3.0)
    assert isinstance(verifier, Verifier)
    assert verifier.name == name
    verifier.close()


def test_a_function_is_made_by_its_import_path(user_module):
    name = user_module("def f(r, p):\n    return True")
    path = f"{name}:f"
    verifier = make_verifier(path)
    assert verifier.name == path
    verifier.close()


@pytest.mark.parametrize("name", ["sqll", "", "a b:c", "module:"])
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(SettingsError) as caught:
        make_verifier(name)
    for part in (repr(name), "sql, math, math_qwen, code, number, exact", "module:function"):
        assert part in str(caught.value)
