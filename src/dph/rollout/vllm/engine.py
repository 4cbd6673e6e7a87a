"""vLLM's engine: token ids and seeds in, token ids and log-probs out, as they finish.

All that is used of vLLM is used here. It is imported when an engine starts, never before.
"""

import importlib
import importlib.util
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from dph.errors import ModelError, SettingsError
from dph.rollout.base import SamplingParameters

LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

COOLEST = 0.01
"""vLLM raises a temperature between 0 and this to this."""

_LONGEST_THAT_FITS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine is set up.

    Args:
        dtype: of the weights and the computation.
        max_rows: completions decoded side by side.
        memory: share of each GPU's memory for weights and cache together.
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
        SettingsError: vLLM is not installed, or there is no CUDA device.
    """
    if importlib.util.find_spec("vllm") is None:
        raise SettingsError(
            'sampling.engine = "vllm" needs vLLM, which is not installed: '
            "pip install 'dph-rl[vllm]', or use sampling.engine = \"torch\""
        )
    if not torch.cuda.is_available():
        raise SettingsError(
            'sampling.engine = "vllm" needs a CUDA device, and there is none; '
            'use sampling.engine = "torch"'
        )


class Engine:
    """A running vLLM engine over the weights of a directory."""

    def __init__(self, directory: Path, *, options: EngineOptions, mode: LogprobsMode) -> None:
        """Load the weights and reserve the memory: this takes from seconds to minutes.

        Raises:
            SettingsError: vLLM is not installed, or there is no CUDA device.
            ModelError: vLLM cannot serve the model, or the memory does not suffice.
        """
        require_vllm()
        # Standard output belongs to what the command line prints, JSON for instance.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
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
        finally:
            if waiting:
                engine.abort_request(list(waiting))

    def close(self) -> None:
        """End the engine's processes and free its memory."""
        self._llm.llm_engine.engine_core.shutdown()

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


def _arguments(directory: Path, options: EngineOptions, mode: LogprobsMode) -> Mapping[str, Any]:
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
