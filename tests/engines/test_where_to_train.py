"""What docs/guides/cluster.md says that each engine can, held to what recipes say."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

from dph._base.provenance import install_command
from dph.engines import verl_rows
from dph.recipe.tables import AdapterSettings

PAGE = Path(__file__).parents[2] / "docs/guides/cluster.md"


def test_the_matrix_names_the_kinds_of_adapters_that_a_recipe_can_have():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("| adapters (PEFT)")]
    kinds = get_args(AdapterSettings.model_fields["kind"].annotation)
    assert line.split("|")[2].strip().casefold() == f"yes ({', '.join(kinds)})"


def test_the_page_names_every_setting_that_verl_refuses():
    names = [key.removesuffix(".kind").removesuffix(".*") for key in verl_rows._REFUSED]
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


def test_without_trl_the_error_says_what_to_install():
    code = "import sys; sys.modules['trl'] = None; import dph.engines.trl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{install_command('trl')} (trl>=1.12,<2)" in done.stderr
