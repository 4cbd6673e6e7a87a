import os.path

import pytest

from dph.errors import SettingsError
from dph.import_path import is_import_path, load_callable, source_fingerprint


@pytest.mark.parametrize("path", ["a:b", "a.b:c", "a:b.c", "_a1:b"])
def test_module_and_function_are_an_import_path(path):
    assert is_import_path(path)


@pytest.mark.parametrize("path", ["", "a", ":", "a:", ":b", "a b:c", "a:b:c", ".a:b", "a/b:c"])
def test_anything_else_is_none(path):
    assert not is_import_path(path)
    with pytest.raises(SettingsError, match="module:function"):
        load_callable(path)


def test_a_function_of_a_module_is_loaded():
    assert load_callable("os.path:join") is os.path.join
    assert load_callable("pathlib:Path.cwd")() is not None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module_x:f", "ModuleNotFoundError"),
        ("os.path:no_such", "has no 'no_such'"),
        ("os.path:sep", "not callable"),
    ],
)
def test_what_cannot_be_loaded_is_a_setting_to_correct(path, words):
    with pytest.raises(SettingsError, match=words):
        load_callable(path)


def test_a_module_that_exits_is_a_setting_to_correct(tmp_path, monkeypatch):
    (tmp_path / "my_exiting_module.py").write_text("raise SystemExit(5)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match="SystemExit: 5"):
        load_callable("my_exiting_module:f")


def test_a_module_without_a_file_has_no_fingerprint():
    assert source_fingerprint("sys") == source_fingerprint("no_such_module_x") == ""
    assert source_fingerprint("no_such_package_x.y") == ""
