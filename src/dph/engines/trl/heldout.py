"""Held-out Pass@k while TRL trains: ``PassAtKCallback``, for ``DPHTrainer`` and ``GRPOTrainer``.

PassAtKCallback(problems, "math").attach(trainer)
"""

import copy
import inspect
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import torch
from accelerate.utils import gather_object, is_peft_model
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

from dph._base.files import make_directory, write_json, write_text
from dph._base.randomness import derived_seed
from dph.errors import CheckpointError, ModelError, SettingsError
from dph.model.prompts import completion_text, encode_prompt, stop_token_ids
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import recipe_digest
from dph.records import Completion, Problem
from dph.runs.directory import RunDirectory
from dph.runs.evaluate.evaluate import EvaluationSet, chunks, evaluate_set
from dph.runs.evaluate.metrics import require_k_fits
from dph.runs.evaluate.progress_file import step_metrics_of
from dph.runs.evaluate.samples_file import (
    SAMPLES,
    comparable_scores,
    read_samples,
    samples_digest,
    write_samples,
)
from dph.runs.evaluate.scores import evaluation_document, keep_problems
from dph.tasks.environments import EnvironmentVerifier
from dph.tasks.problems import problems_fingerprint
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier, verifier_identity

_LOG = logging.getLogger(__name__)
_RETAINED = ("keep", "keep_null", "explore", "explore_null")


@dataclass(frozen=True, slots=True)
class TrainerSampler:
    """Draws with the generation of a trainer: vLLM if it has that, otherwise transformers'.

    Its log-probs are not kept. The random numbers are not a sample's own as in ``TorchSampler``:
    they depend on the seed and on what else is in the batch, and with vLLM on its state.
    """

    trainer: Any

    def sample(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
        on_completion: Callable[[int, Completion], None] | None = None,
    ) -> list[list[Completion]]:
        """Completions of each request; training's own random numbers do not change."""
        accelerator, tokenizer = self.trainer.accelerator, self.trainer.processing_class
        device, stops = accelerator.device, parameters.stop_token_ids
        rows = [(i, n) for i, asked in enumerate(requests) for n in range(asked.samples)]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(derived_seed(seed, accelerator.process_index))
            drawn = generated(self.trainer, [requests[i].prompt_ids for i, _ in rows], parameters)
        found: list[list[Completion]] = [[] for _ in requests]
        for (i, n), tokens in zip(rows, drawn, strict=True):
            # TRL before 1.14 leaves padding behind an end that the tokenizer does not know.
            end = next((at for at, token in enumerate(tokens, 1) if token in stops), None)
            ids = tuple(tokens[:end])
            completion = Completion(
                problem_id=requests[i].problem_id,
                sample_index=requests[i].first_index + n,
                token_ids=ids,
                logprobs=(),
                finished=end is not None,
                text=completion_text(tokenizer, ids),
            )
            found[i].append(completion)
            if on_completion is not None:
                on_completion(i, completion)
        if on_progress is not None:
            on_progress(len(rows))
        return found


# TRL's generation. 1.12 and 1.13 take the size of a group from the trainer, later ones as an
# argument; both understand a group of one (tests/engines/trl/test_contract.py).


def generated(
    trainer: Any, prompts: Sequence[Sequence[int]], parameters: SamplingParameters
) -> list[list[int]]:
    """One completion of each prompt by the trainer's own generation: vLLM's if it has vLLM.

    Every process must call this equally often.
    """
    args, turns = trainer.args, trainer._generate_single_turn
    own = {"num_generations": 1} if "num_generations" in inspect.signature(turns).parameters else {}
    rows = args.per_device_train_batch_size * args.steps_per_generation
    size = len(prompts) if trainer.use_vllm else rows
    found: list[list[int]] = []
    with _as_asked(trainer, parameters), _set(trainer, num_generations=1, num_generations_eval=1):
        for start in range(0, len(prompts), size):
            batch = [list(prompt) for prompt in prompts[start : start + size]]
            completions, _ = turns(batch, None, {}, **own)
            found += [[int(token) for token in ids] for ids in completions]
    return found


@contextmanager
def _as_asked(trainer: Any, parameters: SamplingParameters) -> Iterator[None]:
    asked = {"temperature": parameters.temperature, "top_p": parameters.top_p}
    if trainer.use_vllm:
        asked |= {"temperature": 0.0} if parameters.greedy else {}
        length = {"max_completion_length": parameters.max_tokens}
        with _set(trainer.vllm_generation, **asked, **length):
            yield
        return
    asked["max_new_tokens"] = parameters.max_tokens
    if parameters.greedy:  # do_sample=False would be filled in from the model's own config
        asked["top_k"] = 1
    config = copy.deepcopy(trainer.generation_config)
    config.update(**asked)
    changed = {**trainer.generation_kwargs, **asked}
    with _set(trainer, generation_config=config, generation_kwargs=changed):
        yield


@contextmanager
def _set(owner: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


class PassAtKCallback(TrainerCallback):  # type: ignore[misc]
    """Measures held-out problems before training, every ``every`` steps and at the end.

    Of every problem ``samples`` answers and the greedy one are drawn and graded. Greedy, Pass@k
    with 95% intervals, keep and explore against the measurement before training go to the
    trainer's trackers as ``eval_<name>/...``. The directory ``out`` is a run for ``dph report``,
    ``dph compare`` and ``dph diagnose``: ``base/`` before training, and the newest measurement.

    Answers are drawn by this package's sampler (the same as of ``dph evaluate`` with the same seed
    and settings, to the bit on a CPU), or by the trainer's own generation if that samples with
    vLLM, shards its weights or shapes its distributions further (top_k, min_p, ...), or this
    package cannot draw from the model. Training is the same to the bit as without the callback,
    unless vLLM shares its random state.

    Args:
        problems: that are not trained on, divided among the processes.
        verifier: one of ``make_verifier`` or ``run_verifier``, which the caller closes; or a name,
            an import path or a function of a module, for which worker processes are started. A
            reward function of TRL is one too.
        samples: answers of each problem; 16 and more for keep and explore.
        k: of Pass@k.
        every: optimizer steps between two measurements.
        name: of the set.
        seed: of the samples and of the intervals, ``evaluate.seed`` of a recipe.
        temperature: default: the trainer's; so are ``top_p`` and ``max_tokens``.
        chat: as of ``problems_dataset``; so is ``system_prompt``.
        sampler: "trainer" samples with its generation in any case.
        out: default: the trainer's ``output_dir``.
        workers: processes of a verifier that is named.

    Raises:
        SettingsError: a value is out of range, or the verifier cannot be used.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        verifier: Verifier | str | Callable[..., Any],
        *,
        samples: int = 16,
        k: Sequence[int] = (1, 8, 16),
        every: int = 20,
        name: str = "heldout",
        seed: int = 0,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        chat: bool = False,
        system_prompt: str = "",
        sampler: Literal["auto", "trainer"] = "auto",
        out: str | Path | None = None,
        workers: int = 1,
    ) -> None:
        if every < 1:
            raise SettingsError(f"every must be at least 1 optimizer step, got {every}")
        if sampler not in ("auto", "trainer"):
            raise SettingsError(f'sampler must be "auto" or "trainer", got {sampler!r}')
        for each in k:
            require_k_fits(each, samples)
        if isinstance(verifier, EnvironmentVerifier):
            raise SettingsError(
                "PassAtKCallback measures answers, not trajectories in an environment: "
                "`dph evaluate` measures those"
            )
        self._make: Callable[[], Verifier] | None = None
        if isinstance(verifier, Verifier):
            self._verifier = verifier
        else:
            self._make = partial(make_verifier, verifier, workers=workers)
            self._verifier = self._make()
        self._closed = False
        self._problems, self._samples, self._k = tuple(problems), samples, tuple(k)
        self._every, self._name, self._seed = every, name, seed
        self._asked = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        self._prompts: dict[str, Any] = {"chat": chat, "system_prompt": system_prompt}
        self._sampler, self._out = sampler, None if out is None else Path(out)
        self._trainer: Any = None
        self._base: pa.Table | None = None
        self._seconds, self._began, self._first = 0.0, 0.0, 0

    def attach(self, trainer: Any) -> "PassAtKCallback":
        """Measure during ``trainer.train()``; returns itself.

        Raises:
            SettingsError: another one writes to the same directory.
        """
        self._trainer = trainer
        others = [c for c in trainer.callback_handler.callbacks if isinstance(c, PassAtKCallback)]
        if any(other is not self and other._place.path == self._place.path for other in others):
            raise SettingsError(
                f"another PassAtKCallback writes to {self._place.path}: name a directory (out)"
            )
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Measure the policy that training begins with; after a resume, read what it measured.

        Raises:
            SettingsError: ``attach`` was not called, or the directory is that of another run.
            CheckpointError: a resumed run was measured in another way.
        """
        if self._trainer is None:
            raise SettingsError(
                "PassAtKCallback needs the trainer, for its sampler and trackers: leave it out of "
                "callbacks=[...], and call PassAtKCallback(...).attach(trainer)"
            )
        if self._closed and self._make:  # the trainer trains once more
            self._verifier, self._closed = self._make(), False
        self._began, self._first = time.perf_counter(), state.global_step
        self._seconds = 0.0
        if self._trainer.is_world_process_zero():
            self._go_on(state)
        self._measure(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if state.global_step % self._every == 0:
            self._measure(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Measure the result, and log which share of the time all measurements took."""
        if state.global_step % self._every and state.global_step != self._first:
            self._measure(state)
        share = self._seconds / (time.perf_counter() - self._began)
        self._log({f"eval/{self._name}/share_of_time": share}, state)
        if self._make:
            self._verifier.close()
            self._closed = True

    # What is measured, and with what.

    def _measure(self, state: Any) -> None:
        started, trainer = time.perf_counter(), self._trainer
        ranks, rank = trainer.accelerator.num_processes, trainer.accelerator.process_index
        count = len(self._problems)
        # As many for each process: their forwards, and those of vLLM, may wait for each other.
        mine = [self._problems[i % count] for i in range(rank, -(-count // ranks) * ranks, ranks)]
        parts = EvaluationSet(name=self._name, problems=tuple(mine), draw=self._draw())
        seed = derived_seed(self._seed, "evaluation")
        tables = [evaluate_set(p, samples=self._samples, seed=seed) for p in chunks([parts])]
        rows = pa.concat_tables(tables).to_pylist()
        if ranks > 1:
            rows = gather_object(rows)
        by_place = {(row["problem_id"], row["sample_index"]): row for row in rows}
        order = [
            by_place[problem.problem_id, index]
            for problem in self._problems
            for index in range(-1, self._samples)
        ]
        table = pa.Table.from_pylist(order, schema=SAMPLES)
        zero = trainer.is_world_process_zero()
        numbers = self._written(table, state.global_step) if zero else {}
        seconds = time.perf_counter() - started
        self._seconds += seconds
        self._log({**numbers, f"eval/{self._name}/seconds": seconds}, state)

    def _draw(self) -> GradedSampler:
        tokenizer = self._trainer.processing_class
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ModelError(
                f"PassAtKCallback asks text problems of a tokenizer, got {type(tokenizer).__name__}"
            )
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        whole = model.get_base_model() if is_peft_model(model) else model
        sampler: Sampler = TrainerSampler(self._trainer)
        if self._sampler == "auto" and _can_sample_here(self._trainer, model):
            dtype = "bfloat16" if self._trainer.args.bf16 else "float32"
            try:
                sampler = TorchSampler(whole, tokenizer, dtype=dtype)
            except ModelError as error:
                _LOG.warning("the trainer's own generation draws held-out answers: %s", error)
        return GradedSampler(
            sampler=sampler,
            verifier=self._verifier,
            encode=lambda problem: encode_prompt(tokenizer, problem.prompt, **self._prompts),
            parameters=self._parameters(stop_token_ids(tokenizer, whole)),
        )

    def _parameters(self, stops: tuple[int, ...]) -> SamplingParameters:
        trainer = self._trainer
        own = {
            "temperature": trainer.temperature,
            "top_p": trainer.args.top_p,
            "max_tokens": trainer.max_completion_length,
        }
        asked = {name: value for name, value in self._asked.items() if value is not None}
        return SamplingParameters(stop_token_ids=stops, **{**own, **asked})

    # What is written and logged, by the first process.

    @property
    def _place(self) -> RunDirectory:
        return RunDirectory(self._out or Path(self._trainer.args.output_dir))

    def _go_on(self, state: Any) -> None:
        """Begin the files of a run, or continue those of the run that is resumed."""
        place, self._base = self._place, None
        if place.recipe_file.exists():
            raise SettingsError(f"{place.path} is a run of `dph run`: name another directory (out)")
        before = samples_digest(place.base.samples)
        if state.global_step == 0:
            for file in (place.samples, place.evaluation, place.metrics):
                file.unlink(missing_ok=True)
            return
        if before is None:
            return  # keep and explore stay unknown
        if before.partition(" ")[0] != self._digest():
            raise CheckpointError(
                f"{place.base.samples} was measured with other problems, another verifier or other "
                "settings of PassAtKCallback: undo the change, or name another directory (out)"
            )
        self._base = read_samples(place.base.samples)

    def _digest(self) -> str:
        parameters = self._parameters(())
        return recipe_digest(
            self._name,
            problems_fingerprint(self._problems),
            verifier_identity(self._verifier),
            {"samples": self._samples, "seed": self._seed, **self._prompts},
            {**asdict(parameters), "sampler": self._sampler},
        )

    def _written(self, table: pa.Table, step: int) -> dict[str, float]:
        place = self._place
        if step == 0:
            self._base = table
        tables = {"now": table} | ({} if self._base is None else {"base": self._base})
        scores = comparable_scores(tables)
        document = evaluation_document(
            f"{self._trainer.model.config._name_or_path or 'model'} after {step} steps",
            self._samples,
            scores["now"],
            scores.get("base"),
            self._k,
            self._seed,
        )
        at = place.base if step == 0 else place
        make_directory(at.path)
        digest = f"{self._digest()} {recipe_digest({'rows': table.to_pylist()})}"
        write_samples(at.samples, table, digest=digest)
        write_json(at.evaluation, document)
        keep_problems(at.problems, {self._name: self._problems})
        (summary,) = document["sets"].values()
        numbers = step_metrics_of(document["sets"])
        numbers |= {f"eval/{self._name}/{name}": summary[name] for name in _RETAINED}
        return {name: value for name, value in numbers.items() if value is not None}

    def _log(self, numbers: Mapping[str, float], state: Any) -> None:
        """Give numbers to the trackers now, apart from those that TRL averages over its steps."""
        control = self._trainer.control
        due = control.should_log  # of the step itself, which this log would take for logged
        Trainer.log(self._trainer, {name.replace("/", "_", 1): x for name, x in numbers.items()})
        control.should_log = due
        if self._trainer.is_world_process_zero():
            rows: dict[int, dict[str, Any]] = {}  # one line a step, under our names
            for entry in state.log_history:
                row = rows.setdefault(entry["step"], {"step": entry["step"]})
                for name, value in entry.items():
                    if isinstance(value, (int, float)) and name != "epoch":
                        name = f"eval/{name[5:]}" if name.startswith("eval_") else name
                        row[name] = value if math.isfinite(value) else None
            lines = "".join(json.dumps(rows[step]) + "\n" for step in sorted(rows))
            write_text(self._place.metrics, lines)


def _can_sample_here(trainer: Any, model: Any) -> bool:
    """True if this package's sampler draws from the trainer's distributions."""
    args = trainer.args
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    virtual = is_peft_model(model) and model.active_peft_config.is_prompt_learning
    shaped = args.top_k or args.min_p or args.repetition_penalty != 1.0 or args.generation_kwargs
    return not (trainer.use_vllm or sharded or virtual or shaped)
