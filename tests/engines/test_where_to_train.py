"""What docs/integrations.md says that each engine can, held to what recipes and tests say."""

from pathlib import Path
from typing import get_args

from dph.recipe.tables import AdapterSettings

ROOT = Path(__file__).parents[2]


def cells(about):
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {about}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_matrix_says_who_trains_adapters():
    own, trl, verl = cells("adapters (PEFT)")
    kinds = get_args(AdapterSettings.model_fields["kind"].annotation)
    assert own.casefold().startswith(f"yes ({', '.join(kinds)}")
    engines = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert "| `model.adapter.kind` | refused | refused |" in engines  # written from the settings
    assert all("`[model.adapter]` is refused" in cell for cell in (trl, verl))
