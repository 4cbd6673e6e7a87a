import pytest

from dph.tasks.problems import save_problems
from letter_task import *  # noqa: F403
from run_stages import recipe_of


@pytest.fixture
def make_recipe(tmp_path, make_model, tokenizer, problems):
    """A recipe over the letter task on disk."""
    make_model().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    save_problems(tmp_path / "train.jsonl", problems)
    save_problems(tmp_path / "dev.jsonl", problems[:6])

    def make(method="dph_f", **sections):
        table = {
            "method": method,
            "model": {"path": str(tmp_path / "model"), "device": "cpu"},
            "data": {
                "train": str(tmp_path / "train.jsonl"),
                "sets": {"dev": str(tmp_path / "dev.jsonl")},
                "verifier": "letter_grader:grade",
                "styles": "letter_grader:style_of",
            },
            "sampling": {"max_tokens": 8},
            "presample": {"samples": 4, "threshold": 1},
            "train": {
                "steps": 2,
                "problems_per_step": 4,
                "samples_per_problem": 4,
                "rehearsal_per_step": 2,
                "learning_rate": 1e-2,
            },
            "evaluate": {"samples": 4, "retention_k": 2},
        }
        return recipe_of(table, sections)

    return make
