from pathlib import Path

import pytest
from pydantic import Field

from dph.errors import SettingsError
from dph.recipe.section import PlacedPath, Section, load_file


class Inner(Section):
    width: int = 3


class Outer(Section):
    place: PlacedPath | None = None
    inner: Inner = Inner()
    parts: dict[str, Inner] = Field({})


def load(tmp_path, text, overrides=()):
    path = tmp_path / "file.toml"
    path.write_text(text)
    return load_file(Outer, path, overrides)


def test_paths_start_at_the_file_and_absolute_ones_stay(tmp_path):
    assert load(tmp_path, 'place = "a/b"').place == tmp_path / "a" / "b"
    assert load(tmp_path, 'place = "/a/b"').place == Path("/a/b")


def test_overrides_reach_into_tables(tmp_path):
    made = load(tmp_path, "inner.width = 1", ["inner.width=5", "parts.x={width=2}"])
    assert (made.inner.width, made.parts["x"].width) == (5, 2)


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("a = [", [], "is not valid TOML"),
        ("inner.widht = 1", [], "unknown key inner.widht; did you mean width?"),
        ("parts.x.widht = 1", [], "did you mean width?"),
        ("inner.width = 'x'", [], "inner.width: Input should be a valid integer, got 'x'"),
        ("", ["inner"], "an override has the form key=value, got 'inner'"),
        ("place = 'x'", ["place.a=3"], "place is not a table"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, overrides, said):
    with pytest.raises(SettingsError) as told:
        load(tmp_path, text, overrides)
    assert said in str(told.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the recipe .*none\.toml: No such file"):
        load_file(Outer, tmp_path / "none.toml")
