"""The sampler on torch: any causal language model of transformers, on one device."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import DataError, ModelError, SettingsError
from dph.models.autocast import autocast
from dph.records import Completion
from dph.rollout.base import SampleRequest, SamplingParameters
from dph.rollout.decoding import Decoded, decode
from dph.rollout.randomness import uniforms
from dph.rollout.waves import Row, Wave, plan_waves


class TorchSampler:
    """Draws completions from a transformers model (see `Sampler`).

    Each distinct prompt of a wave is prefilled once and its cache is expanded to its samples;
    finished rows leave the batch. The random numbers of a sample come from (seed, problem_id,
    sample index), so its tokens do not depend on what else is in the batch, up to float rounding
    at the boundary between two tokens. The same requests give bit-identical results on CPU.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_rows: int = 256,
        dtype: str = "float32",
    ) -> None:
        """Sample from ``model`` in waves of at most ``max_rows`` rows.

        Raises:
            SettingsError: ``max_rows`` or ``dtype`` is not allowed.
            ModelError: the model is no decoder, or has fewer embeddings than the tokenizer tokens.
        """
        if max_rows < 1:
            raise SettingsError(f"max_rows must be at least 1, got {max_rows}")
        autocast(model, dtype)  # refuses an unknown dtype before anything is drawn
        if model.config.is_encoder_decoder:
            raise ModelError(f"{type(model).__name__} is an encoder-decoder, not a causal model")
        embeddings = model.get_input_embeddings().weight.shape[0]
        if len(tokenizer) > embeddings:
            raise ModelError(
                f"the tokenizer has {len(tokenizer)} tokens, but the model only {embeddings} "
                "embeddings: they do not belong together"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.dtype = dtype

    def sample(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Completion]]:
        """Completions of each request, in the order of requests and sample indices.

        Raises:
            DataError: a prompt is empty.
            SettingsError: prompt and ``max_tokens`` do not fit the context, or a stop token is not
                in the vocabulary.
            ModelError: the model's log-probs are not finite.
        """
        check_requests(self.model.config, requests, parameters)
        results: list[dict[int, Completion]] = [{} for _ in requests]
        texts: dict[tuple[int, ...], str] = {}
        with _evaluating(self.model), torch.no_grad(), autocast(self.model, self.dtype):
            for wave in plan_waves(requests, max_rows=self.max_rows):
                decoded = decode(
                    self.model,
                    wave,
                    self._uniforms(wave, requests, parameters, seed),
                    parameters,
                    on_finished=on_progress or (lambda _: None),
                )
                for row, ids, logprobs, finished in _trimmed(wave, decoded, parameters):
                    if ids not in texts:
                        texts[ids] = self._text(ids)
                    results[row.request][row.sample_index] = Completion(
                        problem_id=requests[row.request].problem_id,
                        sample_index=row.sample_index,
                        token_ids=ids,
                        logprobs=logprobs,
                        finished=finished,
                        text=texts[ids],
                    )
        return [[drawn[index] for index in sorted(drawn)] for drawn in results]

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

    def _text(self, ids: tuple[int, ...]) -> str:
        text = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)


def check_requests(
    config: PreTrainedConfig, requests: Iterable[SampleRequest], parameters: SamplingParameters
) -> None:
    """Refuse what cannot be sampled.

    Raises:
        DataError: a prompt is empty.
        SettingsError: prompt and ``max_tokens`` do not fit the context, or a stop token is not in
            the vocabulary.
    """
    config = config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    vocabulary = config.vocab_size
    for token in parameters.stop_token_ids:
        if not 0 <= token < vocabulary:
            raise SettingsError(f"stop token {token} is not in the vocabulary of {vocabulary}")
    for request in requests:
        length = len(request.prompt_ids)
        if not length:
            raise DataError(f"problem {request.problem_id!r} has an empty prompt")
        if context is not None and length + parameters.max_tokens > context:
            raise SettingsError(
                f"problem {request.problem_id!r}: a prompt of {length} tokens and max_tokens = "
                f"{parameters.max_tokens} exceed the model's context of {context}"
            )


def _trimmed(
    wave: Wave, decoded: Decoded, parameters: SamplingParameters
) -> Iterator[tuple[Row, tuple[int, ...], tuple[float, ...], bool]]:
    """Each row's tokens up to and including its first stop token."""
    stops = np.isin(decoded.tokens, parameters.stop_token_ids)
    finished = np.asarray(stops.any(axis=1))
    lengths = np.where(finished, stops.argmax(axis=1) + 1, decoded.tokens.shape[1])
    for row, ids, logprobs, length, done in zip(
        wave.rows,
        decoded.tokens.tolist(),
        decoded.logprobs.tolist(),
        lengths.tolist(),
        finished.tolist(),
        strict=True,
    ):
        if not np.isfinite(logprobs[:length]).all():
            raise ModelError("the model gives log-probs that are not finite: its weights are lost")
        yield row, tuple(ids[:length]), tuple(logprobs[:length]), done


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module is as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
