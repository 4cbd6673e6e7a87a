"""``python -m dph.engines.trl.run_recipe RUN``: trains the recipe of a run directory.

``dph run --engine trl`` starts it, once or by accelerate. It goes on from TRL's newest checkpoint
and leaves the weights in ``RUN/trl/model``.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback

from dph._processes.jobs.child import end_with_parent
from dph.engines.stages.engine_log import SECONDS, VERDICT
from dph.engines.stages.stage import ERROR, longest_prompt, problems_to_explore
from dph.engines.stages.trl_stage import LOG, MODEL, newest_step, trl_arguments
from dph.engines.trl.config import DPHConfig
from dph.engines.trl.dataset import problems_dataset, reward_function
from dph.engines.trl.trainer import DPHTrainer
from dph.engines.trl.trajectories import Trajectories, trajectory_rewards
from dph.errors import DphError
from dph.model.policies import load_policy
from dph.model.prompts import stop_token_ids
from dph.model.sampler.episodes import EpisodeSampler
from dph.recipe import load_recipe
from dph.records import Outcome, Problem, Verdict
from dph.runs.directory import RunDirectory
from dph.runs.drawing import graded_sampler
from dph.runs.plan import RunPlan, open_plan
from dph.runs.train.optimizer import make_optimizer, make_schedule
from dph.tasks.environments import EnvironmentVerifier


def train(directory: Path) -> None:
    """Train the recipe in ``directory``.

    Raises:
        DphError: as ``DPHTrainer`` does.
    """
    recipe = load_recipe(RunDirectory(directory).recipe_file)
    with open_plan(recipe, directory) as plan:
        trainer = make_trainer(plan)
        output = Path(trainer.args.output_dir)
        step = newest_step(output)
        trainer.train(resume_from_checkpoint=str(output / f"checkpoint-{step}") if step else None)
        trainer.save_model(str(output / MODEL))  # whole once every process has ended well


def make_trainer(plan: RunPlan) -> DPHTrainer:
    """The trainer of the run, with this package's model, rewards and optimizer."""
    recipe, data = plan.recipe, plan.recipe.data
    cuda = recipe.model.device != "cpu" and torch.cuda.is_available()
    args = DPHConfig(
        **trl_arguments(recipe, plan.directory.path, longest_prompt=longest_prompt(plan), cuda=cuda)
    )
    policy = _policy(plan)
    optimizer = make_optimizer(policy, recipe.train, seed=recipe.seed)
    problems = [plan.prompts.asked(problem) for problem in problems_to_explore(plan)]
    trainer = DPHTrainer(
        model=policy,
        args=args,
        train_dataset=problems_dataset(
            problems, chat=data.chat is True, system_prompt=data.system_prompt
        ),
        processing_class=plan.prompts.tokenizer,
        optimizers=(optimizer, make_schedule(optimizer, recipe.train, done=0)),
        **_drawing(plan, policy, problems),
    )
    if trainer.accelerator.is_main_process:
        trainer.add_callback(_Log(Path(args.output_dir) / LOG))
    return trainer


def _drawing(plan: RunPlan, policy: PreTrainedModel, problems: Sequence[Problem]) -> dict[str, Any]:
    """Arguments that say how to draw and grade: answers by TRL, or trajectories."""
    if isinstance(plan.verifier, EnvironmentVerifier):
        draw = graded_sampler(plan, policy)
        assert isinstance(draw, EpisodeSampler)
        by_id = {problem.problem_id: problem for problem in problems}
        return {
            "rollout_func": Trajectories(draw=draw, problems=by_id, seed=plan.recipe.seed),
            "reward_funcs": trajectory_rewards(draw.environment.name, _log_verdicts),
        }
    ends = stop_token_ids(plan.prompts.tokenizer, policy, plan.recipe.sampling.stop)
    rewards = reward_function(plan.verifier, stop_token_ids=ends, observe=_log_verdicts)
    return {"reward_funcs": rewards}


def _policy(plan: RunPlan) -> PreTrainedModel:
    """The initial policy on the CPU, whence TRL moves it; answers end where ours do."""
    settings = plan.recipe.model.model_copy(
        update={"device": "cpu", "gradient_checkpointing": False}
    )
    policy = load_policy(plan.initial, settings, initial=plan.initial)
    ends = stop_token_ids(plan.prompts.tokenizer, policy, plan.recipe.sampling.stop)
    policy.generation_config.eos_token_id = list(ends)
    return policy


def _log_verdicts(log: Callable[[str, float], None], verdicts: Sequence[Verdict]) -> None:
    """The share of every outcome: all of them, for every process must log the same names."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    for outcome in Outcome:
        log(f"{VERDICT}outcome_{outcome.value.lower()}", counts[outcome] / len(verdicts))
    log(f"{VERDICT}correct", counts[Outcome.CORRECT] / len(verdicts))


class _Log(TrainerCallback):  # type: ignore[misc]
    """A line for each optimizer step, as ``engine_log`` reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Append TRL's log of the step; its summary at the end of training is not a step."""
        if "loss" not in logs:
            return
        now = time.perf_counter()
        data = {**logs, SECONDS: now - self._since}
        self._since = now
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": state.global_step, "data": data}) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Train; an error of this package is one line that ``engines.child`` finds in the log."""
    end_with_parent()
    try:
        train(Path(arguments[0]))
    except DphError as error:
        print(f"{ERROR}{' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    sys.exit(main(sys.argv[1:]))
