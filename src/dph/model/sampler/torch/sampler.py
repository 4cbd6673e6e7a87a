"""The sampler on torch: any causal language model of transformers, on one device."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from dph._base.randomness import uniforms
from dph.errors import DataError, ModelError, SettingsError
from dph.model.forward.probing import probe_tokens, sees_later_tokens
from dph.model.loading import autocast, evaluating, longest_context
from dph.model.prompts import completion_text
from dph.model.releases import CACHE_ARGUMENTS, RECURRENT, cache_argument, keeps_state
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.decoding import Decoder, DrawnRow, RepeatedForward, WholeForward
from dph.model.sampler.torch.rows_in_place import CapturedSteps, GraphDecoder, RowsInPlace
from dph.model.sampler.torch.rows_in_place import probed_logits as logits_in_place
from dph.model.sampler.torch.shared_forward import (
    SharedForward,
    probed_logits,
    sharing_refusal,
    window_refusal,
)
from dph.model.sampler.torch.waves import (
    Room,
    Waiting,
    Wave,
    capacity_of,
    padded_width,
    room_in_memory,
)
from dph.recipe.tables import CACHE_TOKENS, MAX_ROWS
from dph.records import Completion

_LOG = logging.getLogger(__name__)
_MANY_LAUNCHES = "a token is not one launch in sampling"
SHORT_PROMPT = 64
"""Tokens up to which the only prompt of a batch costs no more in each of its rows."""


class TorchSampler:
    """Draws completions from a transformers model (see `Sampler`).

    What prompts begin with alike is prefilled once, and all rows of a prompt read the same keys and
    values; waiting prompts start as rows finish. A model that cannot share is logged once, and each
    of its rows has its prompt in a cache of transformers. The random numbers of a sample come from
    (seed, problem_id, sample index), so its tokens do not depend on what else is in the batch, up
    to float rounding at the boundary between two tokens. The same requests give bit-identical
    results on a CPU.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_rows: int | None = None,
        cache_tokens: int | None = None,
        dtype: str = "float32",
    ) -> None:
        """Sample from ``model``.

        Args:
            model: a causal language model; its mode is restored after each call.
            tokenizer: turns tokens into text.
            max_rows: completions decoded side by side. None: 256, and on a GPU as many as fit.
            cache_tokens: tokens the key-value cache may hold: each prompt once, and ``max_tokens``
                for each row. Every prompt of a model that cannot share stands in each of its rows.
                None: 262144, and on a GPU as many as fit into its free memory.
            dtype: of the computation, float32 or bfloat16.

        Raises:
            SettingsError: ``max_rows`` or ``dtype`` is not allowed.
            ModelError: the model is no decoder, has recurrent layers, or has fewer embeddings than
                the tokenizer has tokens.
        """
        if max_rows is not None and max_rows < 1:
            raise SettingsError(f"max_rows must be at least 1, got {max_rows}")
        autocast(model, dtype)  # refuses an unknown dtype before anything is drawn
        if model.config.is_encoder_decoder:
            raise ModelError(f"{type(model).__name__} is an encoder-decoder, not a causal model")
        if keeps_state(model.config, [type(model)]):
            raise ModelError(f"{type(model).__name__} is not supported: its layers {RECURRENT}")
        embeddings = model.get_input_embeddings().weight.shape[0]
        if tokenizer.vocab_size > embeddings:  # without added ones, which no prompt may have
            raise ModelError(
                f"the tokenizer has {tokenizer.vocab_size} tokens, but the model only {embeddings} "
                f"embeddings: they do not match"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_rows, self.cache_tokens = max_rows, cache_tokens
        self.dtype = dtype
        self._refusals: dict[bool, str | None] = {}
        """Answers of `sharing_refusal`: for decoding in place, and otherwise."""
        self._no_graphs: str | None = None
        """The reason why steps are no graphs, found when one was to be captured."""
        self._logged: set[str] = set()

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

        Raises:
            DataError: a prompt is empty.
            SettingsError: prompt and ``max_tokens`` do not fit the context or the cache, or a stop
                token is not in the vocabulary.
            ModelError: the model's log-probs are not finite.
        """
        check_requests(self.model.config, requests, parameters)
        results: list[dict[int, Completion]] = [{} for _ in requests]
        texts: dict[tuple[int, ...], str] = {}
        with evaluating(self.model), torch.no_grad(), autocast(self.model, self.dtype):
            for done in self._drawn(requests, parameters, seed):
                for drawn in done:
                    ids = drawn.token_ids
                    if ids not in texts:
                        texts[ids] = completion_text(self.tokenizer, ids)
                    position, index = drawn.row.request, drawn.row.sample_index
                    completion = Completion(
                        problem_id=requests[position].problem_id,
                        sample_index=index,
                        token_ids=ids,
                        logprobs=drawn.logprobs,
                        finished=drawn.finished,
                        text=texts[ids],
                    )
                    results[position][index] = completion
                    if on_completion:
                        on_completion(position, completion)
                if on_progress:
                    on_progress(len(done))
        return [[drawn[index] for index in sorted(drawn)] for drawn in results]

    def _drawn(
        self, requests: Sequence[SampleRequest], parameters: SamplingParameters, seed: int
    ) -> Iterator[list[DrawnRow]]:
        if not any(request.samples for request in requests):
            return
        uniforms = partial(self._uniforms, requests=requests, parameters=parameters, seed=seed)
        most, limit = parameters.max_tokens, self._limit(parameters)
        if self._in_place(requests, parameters):
            capacity = capacity_of(requests, limit, max_tokens=most)
            room = Room(rows=capacity.rows, tokens=capacity.prompt_tokens)
            waiting = Waiting(requests, limit=room, max_tokens=most, packed=True)
            rows = RowsInPlace(self.model, parameters, capacity)
            refusal = self._no_graphs
            if parameters.top_p < 1 and not parameters.greedy:
                refusal = "a nucleus (top_p < 1) waits for the device"
                self._tell(_MANY_LAUNCHES, refusal)

            def refuse(why: str) -> None:
                self._no_graphs = why
                self._tell(_MANY_LAUNCHES, why)

            steps = CapturedSteps(refusal, refuse)
            yield from GraphDecoder(rows, waiting, steps, uniforms=uniforms).run()
            return
        forward = self._forward(requests, parameters, limit)
        waiting = Waiting(requests, limit=limit, max_tokens=most, shared=forward.joins)
        decoder = Decoder(forward, waiting, parameters, uniforms=uniforms)
        with forward.active() if isinstance(forward, SharedForward) else nullcontext():
            yield from decoder.run()

    def _limit(self, parameters: SamplingParameters) -> Room:
        if self.model.device.type != "cuda":
            return Room(rows=self.max_rows or MAX_ROWS, tokens=self.cache_tokens or CACHE_TOKENS)
        width = 2 if self.dtype == "bfloat16" else self.model.dtype.itemsize
        room = room_in_memory(self.model, max_tokens=parameters.max_tokens, width=width)
        return Room(
            rows=self.max_rows or room.rows,
            tokens=room.tokens if self.cache_tokens is None else self.cache_tokens,
        )

    def _in_place(self, requests: Sequence[SampleRequest], parameters: SamplingParameters) -> bool:
        if self.model.device.type != "cuda":
            return False
        refusal = self._refusal(requests, parameters, in_place=True)
        if refusal is not None:
            self._tell(_MANY_LAUNCHES, refusal)
        return refusal is None

    def _refusal(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        in_place: bool = False,
    ) -> str | None:
        """The reason why rows cannot share their prompts, or be decoded in place; or None."""
        prompts = [request.prompt_ids for request in requests]
        if in_place not in self._refusals:
            ask = logits_in_place if in_place else probed_logits
            self._refusals[in_place] = sharing_refusal(
                self.model, prompts, ask=ask, rounded=in_place
            )
        tokens = max(map(len, prompts), default=0) + parameters.max_tokens
        return self._refusals[in_place] or window_refusal(self.model, tokens)

    def _forward(
        self, requests: Sequence[SampleRequest], parameters: SamplingParameters, limit: Room
    ) -> SharedForward | RepeatedForward | WholeForward:
        refusal = self._refusal(requests, parameters)
        if refusal is not None:
            self._tell("prompts are not shared in sampling", refusal)
        argument = cache_argument(self.model)
        alone = argument and self._is_one_short_prompt(requests, parameters, limit)
        if refusal is None and not alone:
            return SharedForward(self.model, max_tokens=parameters.max_tokens)
        if argument:
            return RepeatedForward(self.model, argument)
        tokens = probe_tokens(self.model.config, [request.prompt_ids for request in requests])
        if sees_later_tokens(self.model, tokens):
            name = type(self.model).__name__
            raise ModelError(f"{name} is not causal: its logits at a token depend on later tokens")
        unknown = f"its forward takes no {' or '.join(CACHE_ARGUMENTS)}"
        self._tell("each token runs its whole row in sampling, which is slow", unknown)
        return WholeForward(self.model)

    def _tell(self, what: str, why: str) -> None:
        if f"{what}: {why}" not in self._logged:
            self._logged.add(f"{what}: {why}")
            _LOG.warning("%s: %s: %s", type(self.model).__name__, what, why)

    def _is_one_short_prompt(
        self, requests: Sequence[SampleRequest], parameters: SamplingParameters, limit: Room
    ) -> bool:
        """True if there is one prompt to draw, a short one, whose rows are all decoded at once.

        It shares nothing, and on a CPU the cache of transformers is faster for it then
        (docs/performance.md).
        """
        prompts = {request.prompt_ids for request in requests if request.samples}
        width = len(next(iter(prompts))) if len(prompts) == 1 else SHORT_PROMPT + 1
        rows = sum(request.samples for request in requests)
        return (
            width <= SHORT_PROMPT
            and self.model.device.type == "cpu"
            and rows <= limit.rows
            and rows * (padded_width(width) + parameters.max_tokens) <= limit.tokens
        )

    def _uniforms(
        self,
        wave: Wave,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        seed: int,
    ) -> Float[Tensor, "steps rows"]:
        count = parameters.max_tokens
        if parameters.greedy:
            return torch.zeros(count, len(wave.rows), device=self.model.device)
        drawn: list[NDArray[np.float64]] = [
            uniforms(
                seed=seed,
                problem_id=requests[row.request].problem_id,
                sample_index=row.sample_index,
                count=count,
            )
            for row in wave.rows
        ]
        # Below 1 by more than rounding: uniform * total must stay below total.
        bounded = np.minimum(np.stack(drawn, axis=1), 1 - 2.0**-40)
        return torch.from_numpy(bounded).to(self.model.device)


def check_requests(
    config: PreTrainedConfig, requests: Iterable[SampleRequest], parameters: SamplingParameters
) -> None:
    """Refuse what cannot be sampled."""
    context, vocabulary = longest_context(config), config.get_text_config().vocab_size
    for token in parameters.stop_token_ids:
        if not 0 <= token < vocabulary:
            raise SettingsError(f"stop token {token} is not in the vocabulary of {vocabulary}")
    for request in requests:
        length = len(request.prompt_ids)
        if not length:
            raise DataError(f"problem {request.problem_id!r} has an empty prompt")
        if (token := max(request.prompt_ids)) >= vocabulary:
            name = f"problem {request.problem_id!r}: token {token} of its prompt"
            raise ModelError(f"{name} is not in the vocabulary of {vocabulary}")
        if context is not None and length + parameters.max_tokens > context:
            raise SettingsError(
                f"problem {request.problem_id!r}: a prompt of {length} tokens and max_tokens = "
                f"{parameters.max_tokens} exceed the model's context of {context}"
            )
