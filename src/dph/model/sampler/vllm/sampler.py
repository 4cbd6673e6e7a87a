"""The sampler on vLLM: many completions at a time, with weights from a directory."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedTokenizerBase

from dph._base.closing import Closing
from dph._base.randomness import derived_seed
from dph.errors import ModelError, SettingsError
from dph.model.loading import load_config
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import check_requests
from dph.model.sampler.vllm.engine import (
    COOLEST,
    Engine,
    EngineCompletion,
    EngineOptions,
    EngineRow,
    LogprobsMode,
    require_vllm,
)
from dph.records import Completion


class Rescore(Protocol):
    """Log-probs of the full vocabulary, at a temperature, by another forward."""

    def __call__(
        self,
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        *,
        temperature: float,
    ) -> list[tuple[float, ...]]:
        """One row of log-probs (nats) for each completion."""
        ...


class VLLMSampler(Closing):
    """Draws completions with vLLM (see `Sampler`); a context manager that ends the engine.

    Every completion is a request of its own with a seed from (seed, problem_id, sample index), and
    prefix caching computes a shared prompt once. Tokens do not depend on what else is drawn, up to
    float rounding at the boundary between two tokens: vLLM's kernels round as their batch is
    shaped. They are other tokens than the torch sampler's for the same seed.

    Log-probs: vLLM gives those of the full vocabulary before the temperature, or those after
    temperature and top-p. The first are right at temperature 1, the second at top_p 1 without
    greedy; which ones is decided when the engine starts, by the first temperature asked for. Where
    neither is right, ``rescore`` gives them once all completions are drawn.

    The engine starts with the first call of ``sample``, so that a stage which finds its work done
    already does not wait for it.
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
            DataError: a prompt is empty.
            SettingsError: prompt and ``max_tokens`` do not fit the context, a stop token is not in
                the vocabulary, the temperature is too low for vLLM, or its log-probs would be
                wrong and there is no ``rescore``.
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
        rows = [_row(requests[position], index, seed) for position, index in keys]
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
            whole = self._rescored(rows, whole, parameters)
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
        """The engine, once it is sure that it can draw what is asked for."""
        check_requests(self._config, requests, parameters)
        if not parameters.greedy and parameters.temperature < COOLEST:
            raise SettingsError(
                f"vLLM draws at temperature {COOLEST} or above, got {parameters.temperature}; use "
                "greedy for the limit"
            )
        mode = self._mode if self._engine else _mode(parameters)
        if self._rescore is None and not _exact(mode, parameters):
            raise SettingsError(
                "vLLM has no log-probs of the full vocabulary at temperature "
                f"{parameters.temperature}, top_p {parameters.top_p}, greedy {parameters.greedy} "
                f"with {mode}; give rescore"
            )
        if self._engine is None:
            self._mode = mode
            self._engine = Engine(self._directory, options=self._options, mode=mode)
        _require_room(self._engine.context, requests, parameters)
        return self._engine

    def _completion(
        self,
        request: SampleRequest,
        index: int,
        drawn: EngineCompletion,
        parameters: SamplingParameters,
    ) -> Completion:
        ids = drawn.token_ids
        finished = bool(ids) and ids[-1] in parameters.stop_token_ids
        if not finished and len(ids) < parameters.max_tokens:
            raise ModelError(
                f"vLLM ended sample {index} of problem {request.problem_id!r} after {len(ids)} of "
                f"{parameters.max_tokens} tokens without a stop token ({drawn.finish_reason})"
            )
        if not all(map(isfinite, drawn.logprobs)):
            raise ModelError("the model gives log-probs that are not finite: its weights are lost")
        text = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return Completion(
            problem_id=request.problem_id,
            sample_index=index,
            token_ids=ids,
            logprobs=drawn.logprobs,
            finished=finished,
            text=str(text),
        )

    def _rescored(
        self,
        rows: Sequence[EngineRow],
        completions: Sequence[Completion],
        parameters: SamplingParameters,
    ) -> list[Completion]:
        assert self._rescore is not None
        scores = self._rescore(
            [row.prompt_ids for row in rows],
            [completion.token_ids for completion in completions],
            temperature=parameters.temperature,
        )
        return [
            replace(completion, logprobs=logprobs)
            for completion, logprobs in zip(completions, scores, strict=True)
        ]


def _row(request: SampleRequest, index: int, seed: int) -> EngineRow:
    return EngineRow(
        prompt_ids=request.prompt_ids, seed=derived_seed(seed, "vllm", request.problem_id, index)
    )


def _mode(parameters: SamplingParameters) -> LogprobsMode:
    """The log-probs to start an engine with."""
    return "raw_logprobs" if parameters.temperature == 1 else "processed_logprobs"


def _exact(mode: LogprobsMode, parameters: SamplingParameters) -> bool:
    """Whether they are those of the full vocabulary at the temperature.

    Raw ones come before the temperature, and so do a greedy token's in either mode.
    """
    if mode == "raw_logprobs" or parameters.greedy:
        return parameters.temperature == 1
    return parameters.top_p == 1


def _require_room(
    context: int, requests: Sequence[SampleRequest], parameters: SamplingParameters
) -> None:
    longest = max((len(request.prompt_ids) for request in requests), default=0)
    if longest + parameters.max_tokens > context:
        raise SettingsError(
            f"a prompt of {longest} tokens and max_tokens = {parameters.max_tokens} exceed the "
            f"context of {context} that vLLM has room for; raise vllm.memory or vllm.context"
        )
