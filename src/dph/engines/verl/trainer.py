"""verl's trainers with the objective of a recipe.

Public hooks are overridden, and one that is not: ``_compute_advantage``.
"""

import logging
from itertools import compress, repeat
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import DictConfig, open_dict
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSync, register_trainer
from verl.utils.config import omega_conf_to_dataclass

from dph._base.files import make_directory
from dph.engines.verl.advantages import answer_metrics, answers_of, replace_advantages, session_of
from dph.engines.verl.loss import WorkerLoss
from dph.engines.verl.mixing import MixingActors, open_pools
from dph.engines.verl.prompts import require_prompts_fit
from dph.engines.verl.rows import EngineForward
from dph.engines.verl.settings import (
    TrainSettings,
    apply_terms,
    own_advantage,
    own_loss,
    precision,
    train_settings,
)
from dph.errors import SettingsError
from dph.loss.objectives import AnyAdvantage, GroupAdvantage
from dph.model.loading import load_tokenizer
from dph.runs.objective import make_objective
from dph.runs.presample.pool import load_pool
from dph.runs.train.policy_rows import checked, require_stored
from dph.tasks.problems import save_problems
from dph.tasks.verl import ground_truth_of, problems_of_verl, problems_to_verl

logger = logging.getLogger(__name__)

PREFIX = "dph_"
"""Of the trainers' names: ``dph_sync`` is ``sync`` with rehearsal."""


class _Rehearsing:
    """Additions of every mode: a pool that fits, its problems, the loss, the mixing actors."""

    mode: ClassVar[str]
    _told = False

    def __init__(self, config: DictConfig) -> None:
        with open_dict(config):  # verl compares the name of the mode with its own ones
            config.trainer.v1.trainer_mode = self.mode
        settings = self.dph = train_settings(config)
        if config.actor_rollout_ref.actor.shuffle:
            raise SettingsError(
                "actor_rollout_ref.actor.shuffle=true would give mini-batches without stored "
                "answers, because rows are ordered to give each its share: set it to false"
            )
        apply_terms(config, settings.objective)
        self._objective = make_objective(settings.objective)
        tokenizer = load_tokenizer(config.actor_rollout_ref.model.path)
        self._stores = open_pools(settings, config, tokenizer)
        if settings.problems == "exploration":
            _explore(settings, config, tokenizer)
        super().__init__(config)  # type: ignore[call-arg]

    def on_init_end(self) -> None:
        """Take over the actors, and compare log-probs with the pool's before the first step."""
        trainer: Any = self
        config, settings = trainer.config, self.dph
        actors, objective = trainer.actor_rollout_wg, settings.objective
        if own_loss(objective):
            actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
            actors.set_loss_fn(WorkerLoss(actor=actor, settings=objective))
        if objective.rehearses:
            if trainer.global_steps == 0:
                self._require_reference(actors)
            trainer.actor_rollout_wg = MixingActors(
                actors, config, settings, self._stores, self._update
            )
        super().on_init_end()  # type: ignore[misc]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Verl's advantages, and ours if verl has none or a group was not graded whole."""
        batch = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        trainer: Any = self
        algorithm = trainer.config.algorithm
        own = own_advantage(self.dph.objective)
        advantage: AnyAdvantage = self._objective.advantage
        if not own:
            scaled = algorithm.get("norm_adv_by_std_in_grpo", True)
            advantage = GroupAdvantage("std" if scaled else "none")
        if own or algorithm.adv_estimator == "grpo":
            metrics["dph/ungraded_answers"] = replace_advantages(
                batch,
                advantage,
                rewards="token_level_rewards" if algorithm.use_kl_in_reward else "rm_scores",
                everywhere=own,
            )
        metrics.update(answer_metrics(batch))
        # verl drops an answer whose agent loop raises, and keeps the rest of its group.
        asked = trainer.config.data.train_batch_size * trainer.config.actor_rollout_ref.rollout.n
        drawn = len({session_of(key) for key in answers_of(batch)})
        metrics["dph/missing_answers"] = missing = asked // trainer.parameter_sync_step - drawn
        if missing and not self._told:
            self._told = True
            logger.warning(
                "%d answers are missing in a step, since their agent loops raised an error, which "
                "verl's log has (dph/missing_answers counts them; told once)",
                missing,
            )
        return batch

    def _update(self) -> int:
        """Number of the current update, from 1."""
        trainer: Any = self
        done = (trainer.global_steps - 1) * trainer.parameter_sync_step
        return int(done + trainer.local_trigger_step + 1)

    def _require_reference(self, actors: Any) -> None:
        config = self.config  # type: ignore[attr-defined]
        forward = EngineForward(actors, config)
        for stored in {id(stored): stored for stored in self._stores.values()}.values():
            samples = checked(stored)
            scores = forward(
                [s.prompt_ids for s in samples],
                [s.completion_ids for s in samples],
                temperature=float(config.actor_rollout_ref.rollout.temperature),
            )
            own = [
                tuple(compress(score, sample.written or repeat(True)))
                for score, sample in zip(scores, samples, strict=True)
            ]
            require_stored(samples, own, dtype=precision(config))


@register_trainer(f"{PREFIX}sync")
class DPHTrainerSync(_Rehearsing, PPOTrainerSync):  # type: ignore[misc]
    """Rollout and training take turns on the same devices."""

    mode = "sync"


@register_trainer(f"{PREFIX}colocate_async")
class DPHTrainerColocateAsync(_Rehearsing, PPOTrainerColocateAsync):  # type: ignore[misc]
    """As ``sync``, but unfinished answers continue with the next weights."""

    mode = "colocate_async"


def _explore(settings: TrainSettings, config: DictConfig, tokenizer: Any) -> None:
    """Let verl read the problems that pre-sampling left to explore, as its own files ask them."""
    named = config.data.train_files
    paths = [Path(path).expanduser() for path in ([named] if isinstance(named, str) else named)]
    # A pool of our own engine has its problems without the examples that data.shots puts first.
    asked = {
        problem.problem_id: problem
        for path in paths
        if path.suffix == ".parquet" and path.is_file()
        for _, problem in problems_of_verl(path, ground_truth=settings.ground_truth)
    }
    problems = [asked.get(p.problem_id, p) for p in load_pool(settings.pool).exploration]
    require_prompts_fit(problems, settings, config, tokenizer)
    directory = make_directory(Path(config.trainer.default_local_dir).absolute() / "dph")
    save_problems(directory / "exploration.jsonl", problems)
    field = ground_truth_of(problems[0], acts=settings.environment is not None)
    file = directory / "exploration.parquet"
    problems_to_verl(directory / "exploration.jsonl", file, ground_truth=field)
    with open_dict(config):
        config.data.train_files = [str(file)]
