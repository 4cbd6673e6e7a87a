import pyarrow.parquet as pq
import pytest
from transformers import LlamaConfig, LlamaForCausalLM

import dph
from dph.records import Outcome
from dph.tasks.problems import save_problems
from dph.tasks.verifiers.gym.verifier import GymMaker, gym_tasks

pytest.importorskip("reasoning_gym")

ENDLESS = {"arc_1d", "arc_agi", "rearc", "knight_swap", "rush_hour", "boxnet", "sokoban"}
"""Tasks whose entries take long to make, or whose questions are long."""


@pytest.mark.slow
def test_forty_tasks_take_one_training_step_together(make_recipe, tmp_path, tokenizer):
    tasks = [task for task in gym_tasks() if task not in ENDLESS][:40]
    with GymMaker() as maker:
        problems = [maker.problems(task, count=1)[0] for task in tasks]
    save_problems(tmp_path / "gym.jsonl", problems)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    recipe = make_recipe(
        "grpo",
        data={
            "train": str(tmp_path / "gym.jsonl"),
            "sets": {"all": str(tmp_path / "gym.jsonl")},
            "verifier": "reasoning_gym",
            "styles": None,
        },
        train={"steps": 1, "problems_per_step": 40, "samples_per_problem": 2},
    )
    LlamaForCausalLM(config).save_pretrained(recipe.model.path)
    result = dph.run(recipe, tmp_path / "run")
    assert result.trained.step == 1
    rows = pq.read_table(tmp_path / "run" / "samples.parquet").to_pylist()
    assert {row["problem_id"] for row in rows} == {problem.problem_id for problem in problems}
    assert {row["outcome"] for row in rows}.isdisjoint({Outcome.BAD_GOLD, Outcome.CRASHED})
