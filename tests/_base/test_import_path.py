import importlib
import os.path
import sys

import pytest

from dph._base import import_path
from dph._base.import_path import is_import_path, load_callable, source_fingerprint
from dph.errors import SettingsError


def test_module_and_function_are_an_import_path_and_anything_else_is_none():
    assert all(map(is_import_path, ("a:b", "a.b:c", "a:b.c", "_a1:b")))
    for path in ("", "a", ":", "a:", ":b", "a b:c", "a:b:c", ".a:b", "a/b:c"):
        assert not is_import_path(path)
        with pytest.raises(SettingsError, match="module:function"):
            load_callable(path)


def test_a_function_of_a_module_is_loaded_and_a_module_without_a_file_has_no_fingerprint():
    assert load_callable("os.path:join") is os.path.join
    assert load_callable("pathlib:Path.cwd")() is not None
    assert source_fingerprint("sys") == source_fingerprint("no_such_module_x") == ""
    assert source_fingerprint("no_such_package_x.y") == ""


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


def write_module(directory, name, value):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.py").write_text(
        f"import {name}_beside\n\n\ndef f():\n    return {value!r}, {name}_beside.WORD\n"
    )
    (directory / f"{name}_beside.py").write_text(f"WORD = {value!r}\n")
    return directory


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(import_path, "_added_paths", [])


def test_a_module_is_found_in_the_named_directories_before_anything_else(tmp_path, monkeypatch):
    mine = write_module(tmp_path / "mine", "own_module_a", "mine")
    other = write_module(tmp_path / "other", "own_module_a", "other")
    monkeypatch.chdir(other)
    monkeypatch.syspath_prepend(str(other))
    assert source_fingerprint("own_module_a", [mine]) != source_fingerprint("own_module_a")
    # What it imports from beside it is searched as Python searches: that is the user's own affair.
    assert load_callable("own_module_a:f", [tmp_path, mine])()[0] == "mine"


def test_two_recipes_may_have_modules_of_one_name(tmp_path):
    first = write_module(tmp_path / "first", "own_module_b", "first")
    second = write_module(tmp_path / "second", "own_module_b", "second")
    for place in (first, first, second, first):
        found = load_callable("own_module_b:f", [place])
        assert found() == (place.name, place.name)
        assert load_callable("own_module_b:f", [place]) is found


def test_a_module_may_not_take_the_name_of_one_in_use(tmp_path, monkeypatch):
    first = write_module(tmp_path / "first", "own_module_h", "first")
    second = write_module(tmp_path / "second", "own_module_h", "second")
    monkeypatch.syspath_prepend(str(first))
    importlib.import_module("own_module_h")
    both = rf"{second}/own_module_h\.py, .* different 'own_module_h', {first}/own_module_h\.py"
    with pytest.raises(SettingsError, match=both):
        load_callable("own_module_h:f", [second])
    for name, place in (("json", r"'json'.*__init__\.py"), ("sys", "a built-in module")):
        write_module(tmp_path, name, "mine")
        with pytest.raises(SettingsError, match=rf"already imported a different .*{place}"):
            load_callable(f"{name}:f", [tmp_path])


def test_neither_another_recipe_nor_the_working_directory_is_a_substitute(tmp_path, monkeypatch):
    for name in ("own_module_c", "own_module_d"):
        write_module(tmp_path / "first", name, "first")
    load_callable("own_module_c:f", [tmp_path / "first"])
    monkeypatch.chdir(tmp_path)
    for name in ("own_module_c", "own_module_d"):
        with pytest.raises(SettingsError, match=f"cannot import '{name}'"):
            load_callable(f"{name}:f")
    monkeypatch.chdir(write_module(tmp_path / "here", "own_module_i", "here"))
    monkeypatch.syspath_prepend("")  # as in a notebook
    with pytest.raises(SettingsError, match="only in the working directory"):
        load_callable("own_module_i:f", [tmp_path])


def test_packages_with_and_without_an_init_are_found(tmp_path):
    write_module(tmp_path / "own_package_a", "inner", "plain")
    (tmp_path / "own_package_a" / "inner.py").write_text("def f():\n    return 'plain'\n")
    (tmp_path / "own_package_b").mkdir()
    (tmp_path / "own_package_b" / "__init__.py").write_text("def f():\n    return 'init'\n")
    assert load_callable("own_package_a.inner:f", [tmp_path])() == "plain"
    assert load_callable("own_package_b:f", [tmp_path])() == "init"


@pytest.mark.parametrize("failure", ["ValueError('no')", "SystemExit(5)"])
def test_a_module_that_fails_leaves_nothing_half_imported(tmp_path, failure):
    (tmp_path / "own_module_g.py").write_text(f"raise {failure}")
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"ValueError: no|SystemExit: 5"):
            load_callable("own_module_g:f", [tmp_path])
    assert "own_module_g" not in sys.modules
