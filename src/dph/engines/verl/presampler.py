"""Pre-sampling as a trainer mode of verl: its rollout, its reward loop, its training engine."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, cast
from uuid import uuid4

import numpy as np
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from dph.engines.verl.prompts import problem_of_fields, prompt_ids, require_prompts_fit, stop_ids
from dph.engines.verl.rows import EngineForward
from dph.engines.verl.settings import PresampleSettings, precision, presample_settings
from dph.errors import DataError, TrainingError
from dph.model.loading import load_model, load_tokenizer
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.model.prompts import completion_text
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import Rollout
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.directory import is_made
from dph.runs.presample.manifest import (
    Manifest,
    Source,
    ValueSource,
    read_manifest,
    require_source,
    require_whole,
)
from dph.runs.presample.pool import only_maker, require_free
from dph.runs.presample.presample import StoredForm, presample, split_again
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers import verifier_identity

logger = logging.getLogger(__name__)

NAME = "dph_presample"


@register_trainer(NAME)
class DPHPresampler(PPOTrainerSync):  # type: ignore[misc]
    """Leaves behind the pool that ``dph presample`` would, and trains nothing."""

    def __init__(self, config: DictConfig) -> None:
        self.dph = presample_settings(config)
        require_free(self.dph.pool)
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"
            config.trainer.resume_mode = "disable"  # the initial policy, even next to checkpoints
            config.algorithm.filter_groups.enable = False
            config.data.val_files = config.data.train_files
        super().__init__(config)

    def fit(self, agent_loop_manager: Any) -> None:
        """Make the pool, or continue a half-made one; a finished one is checked and kept.

        A finished one that was split by another rule is split again, and nothing is drawn.
        """
        self.agent_loop_manager = agent_loop_manager
        self.global_steps = 0  # part of every answer's seed; training counts from 1
        settings, path = self.dph, self.dph.pool
        tokenizer = load_tokenizer(self.config.actor_rollout_ref.model.path)
        problems = [problem_of_fields(row, settings) for row in self.train_dataset.dataframe]
        require_prompts_fit(problems, settings, self.config, tokenizer)
        draw = ClusterDraw(self, problems)
        source = _source(self.config, settings, problems, draw)
        with closing(settings.make_verifier()) as verifier:
            grading = ValueSource.of(verifier_identity(verifier))
        if _is_done(_found(path, source, grading), settings):
            return
        with only_maker(path):
            found = _found(path, source, grading)  # again: another process may have made it since
            if not _is_done(found, settings):
                self._make(problems, draw, source, grading, found)

    def _make(
        self,
        problems: Sequence[Problem],
        draw: "ClusterDraw",
        source: Source,
        grading: ValueSource,
        found: Manifest | None,
    ) -> None:
        """Draw and split, or split the samples of ``found`` again."""
        path, rule = self.dph.pool, self.dph.rule
        forward = EngineForward(self.actor_rollout_wg, self.config)
        if found is None:
            presample(
                problems,
                path,
                draw=draw,
                reference=forward,
                source=source,
                grading=grading,
                rule=rule,
                chunk_size=self.dph.chunk_size,
            )
            return
        logger.warning("%s is finished: its samples are split again, nothing is drawn", path)
        scored = StoredForm(
            encode=draw.encode, reference=forward, temperature=draw.parameters.temperature
        )
        split_again(problems, path, found, scored=scored, rule=rule)


class ClusterDraw:
    """Answers from verl's agent loop with the verdicts of its reward loop."""

    def __init__(self, trainer: DPHPresampler, problems: Sequence[Problem]) -> None:
        rollout = trainer.config.actor_rollout_ref.rollout
        self._trainer = trainer
        self._tokenizer = load_tokenizer(trainer.config.actor_rollout_ref.model.path)
        self._rows = {problem.problem_id: row for row, problem in enumerate(problems)}
        if len(self._rows) != len(problems):
            raise DataError("two rows of data.train_files have the same problem id")
        self.parameters = SamplingParameters(
            max_tokens=int(rollout.response_length),
            stop_token_ids=stop_ids(trainer.config, self._tokenizer),
            temperature=float(rollout.temperature),
            top_p=float(rollout.top_p),
        )

    @property
    def encode(self) -> Callable[[Problem], tuple[int, ...]]:
        return lambda problem: prompt_ids(self._tokenizer, problem, self._trainer.dph)

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,  # noqa: ARG002 - the agent loop takes it from the same settings
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw and grade ``samples`` answers of every problem."""
        started = perf_counter()
        names = {uuid4().hex: problem for problem in problems}
        batch = self._roll_out(names, samples)
        fields = ["prompts", "responses", "rollout_log_probs", "extra_fields"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=fields)
        tq.kv_clear(keys=batch.keys, partition_id="train")
        drawn: dict[str, dict[int, GradedCompletion]] = {name: {} for name in names}
        columns = [list(data[name]) for name in fields]
        for key, prompt, answer, logprobs, extra in zip(batch.keys, *columns, strict=True):
            name, session, _ = key.split("_")
            problem = names[name]
            if tuple(prompt.tolist()) != self.encode(problem):
                raise TrainingError(
                    f"the agent loop tokenized the prompt of {problem.problem_id!r} differently "
                    "from `dph train`: use rollout.agent.default_agent_loop=dph_single_turn"
                )
            drawn[name][int(session)] = GradedCompletion(
                completion=self._completion(problem, int(session), answer.tolist(), logprobs),
                verdict=_verdict(extra),
            )
        if on_progress:
            on_progress(len(batch.keys))
        return Rollout(
            problems=tuple(problems),
            prompts=tuple(map(self.encode, problems)),
            groups=tuple(_group(names[name], drawn[name], samples) for name in names),
            sampling_seconds=perf_counter() - started,
            grading_seconds=0.0,  # part of sampling: verl grades answers as they come
        )

    def _roll_out(self, names: dict[str, Problem], samples: int) -> Any:
        """Hand the problems to the agent loop, and wait for all answers."""
        trainer = self._trainer
        rows = [trainer.train_dataset[self._rows[p.problem_id]] for p in names.values()]
        columns = collate_fn(rows)
        columns["uid"] = np.array(list(names), dtype=object)
        columns["__rollout_n__"] = np.array([samples] * len(rows), dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", trainer.global_steps)
        tag = {"is_prompt": True, "status": "pending", "global_steps": trainer.global_steps}
        tq.kv_batch_put(keys=list(names), partition_id="train", tags=[dict(tag) for _ in rows])
        trainer.agent_loop_manager.generate_sequences(batch)
        found, _ = trainer.replay_buffer.sample(
            global_steps=trainer.global_steps, partition_id="train", batch_size=len(rows)
        )
        return found

    def _completion(
        self, problem: Problem, index: int, ids: list[int], logprobs: Any
    ) -> Completion:
        return Completion(
            problem_id=problem.problem_id,
            sample_index=index,
            token_ids=tuple(ids),
            logprobs=tuple(logprobs.tolist()),
            finished=bool(ids) and ids[-1] in self.parameters.stop_token_ids,
            text=completion_text(self._tokenizer, ids),
        )


def _group(
    problem: Problem, drawn: dict[int, GradedCompletion], samples: int
) -> tuple[GradedCompletion, ...]:
    if missing := sorted(set(range(samples)) - set(drawn)):
        raise TrainingError(
            f"problem {problem.problem_id!r}: {len(missing)} of {samples} answers could not be "
            "drawn or graded; the log of verl's agent loop says why"
        )
    return tuple(drawn[index] for index in range(samples))


def _verdict(extra_fields: Any) -> Verdict:
    fields = getattr(extra_fields, "data", extra_fields)
    info = cast(dict[str, Any], fields["reward_extra_info"])
    if "outcome" not in info:
        raise TrainingError(
            "the reward manager gave no verdict: pre-sampling needs DPHRewardManager "
            "(reward.reward_manager)"
        )
    return Verdict(
        outcome=Outcome(str(info["outcome"])), reward=float(info["acc"]), reason=str(info["reason"])
    )


def _found(path: Path, source: Source, grading: ValueSource) -> Manifest | None:
    """The manifest of a finished pool of the same samples, which is whole."""
    if not is_made(path):
        return None
    found = read_manifest(path)
    require_source(path, found, source, grading)
    require_whole(path, found)
    return found


def _is_done(found: Manifest | None, settings: PresampleSettings) -> bool:
    return found is not None and found.rule == settings.rule


def _source(
    config: DictConfig, settings: PresampleSettings, problems: Sequence[Problem], draw: ClusterDraw
) -> Source:
    path = str(Path(config.actor_rollout_ref.model.path).absolute())
    return Source(
        model=path,
        model_fingerprint=weight_fingerprint(load_model(path, device="cpu")),
        tokenizer_fingerprint=tokenizer_fingerprint(load_tokenizer(path)),
        prompts="train",
        prompts_fingerprint=problems_fingerprint(problems),
        chat=settings.chat,
        system_prompt=settings.system_prompt,
        answers=settings.samples,
        temperature=draw.parameters.temperature,
        top_p=draw.parameters.top_p,
        max_tokens=draw.parameters.max_tokens,
        stop_token_ids=draw.parameters.stop_token_ids,
        dtype=precision(config),
        seed=settings.seed,
        engine=f"verl {config.actor_rollout_ref.rollout.name}",
    )
