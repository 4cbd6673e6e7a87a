"""A program: run the cells of a notebook in one namespace, and print what each would show.

``python run_notebook.py FILE.ipynb``. A notebook's kernel is not needed: cells are plain Python.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any


def main(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for number, source in enumerate(sources, start=1):
        body = ast.parse(source).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            show = getattr(value, "_repr_html_", None)
            print(f"-- cell {number}\n{repr(value) if show is None else show()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
