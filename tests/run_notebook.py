"""A program: run the cells of a notebook in one namespace, and write what each would show."""

import ast
import json
import sys
from pathlib import Path
from typing import Any


def show(value: Any) -> None:
    as_markup = getattr(value, "_repr_html_", None)
    sys.stdout.write(f"-- shown\n{repr(value) if as_markup is None else as_markup()}\n")


def main(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__", "_show": show}
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        if isinstance(last := tree.body[-1], ast.Expr):
            last.value = ast.Call(ast.Name("_show", ast.Load()), [last.value], [])
        exec(compile(ast.fix_missing_locations(tree), f"cell {number}", "exec"), names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
