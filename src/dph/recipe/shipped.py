"""The recipes that come with the package: inside it when installed, beside it in a checkout."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import atomic_path, make_directory
from dph.errors import DataError, SettingsError

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "shipped_recipes", _PACKAGE.parents[1] / "recipes")
"""In a wheel, and in a checkout or an unpacked source distribution."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedRecipe:
    """A recipe that comes with the package.

    Attributes:
        name: its file below the directory of all of them, without the ending.
        summary: the first line of its file.
    """

    name: str
    summary: str


def shipped_recipes() -> list[ShippedRecipe]:
    """All of them, by name.

    Raises:
        DataError: this installation has none.
    """
    place = _place()
    return [
        ShippedRecipe(
            name=path.relative_to(place).with_suffix("").as_posix(), summary=_first_line(path)
        )
        for path in sorted(place.rglob("*.toml"))
    ]


def copy_recipe(name: str, out: Path | None = None) -> list[Path]:
    """Copy a recipe, or a folder of them with all that lies beside it.

    Args:
        name: of a recipe or of a folder.
        out: where the copy comes to lie, not there yet [default: its own last name, here].

    Returns:
        The recipes that were written.

    Raises:
        SettingsError: there is no such recipe, or something lies at ``out``.
        DataError: this installation has no recipes.
    """
    source = _source(name)
    out = Path(source.name) if out is None else out
    if out.exists():
        raise SettingsError(f"{out} is there already: name another place (--out)")
    make_directory(out.absolute().parent)
    with atomic_path(out) as temporary:
        if source.is_dir():
            shutil.copytree(source, temporary, ignore=_LEFT_OUT)
        else:
            shutil.copyfile(source, temporary)
    return sorted(out.rglob("*.toml")) if out.is_dir() else [out]


def _place() -> Path:
    for place in _PLACES:
        if place.is_dir():
            return place
    raise DataError(f"this installation has no recipes: {_PLACES[0]} is missing")


def _source(name: str) -> Path:
    place = _place()
    known: dict[str, Path] = {}
    for recipe in shipped_recipes():
        path = place / f"{recipe.name}.toml"
        known[recipe.name] = path
        if path.parent != place:
            known[path.parent.relative_to(place).as_posix()] = path.parent
    found = known.get(name.removesuffix(".toml").strip("/"))
    if found is None:
        raise SettingsError(f"there is no recipe {name!r}; there are: {', '.join(sorted(known))}")
    return found


def _first_line(path: Path) -> str:
    """What a recipe's first comment says."""
    line = path.read_text(encoding="utf-8").partition("\n")[0]
    return line.removeprefix("#").strip() if line.startswith("#") else ""
