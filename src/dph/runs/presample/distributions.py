"""A stored answer with next-token distributions of the initial policy at every position."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionSample:
    """An answer of the initial policy, and what is to be rehearsed at each of its tokens.

    The target of position t is a distribution over ``token_ids[t]`` and one bucket for all other
    tokens: it may be the initial policy's own, or tilted. The sampled token is among the ids.

    Attributes:
        ref_logprobs: of the sampled tokens under the initial policy (never tilted), nats.
        token_ids: at every position the tokens that are told apart, without repetition.
        logprobs: log-probs of the target for those, nats.
        log_tails: log of the target's mass on all other tokens, nats; -inf where there is none.
    """

    problem_id: str
    sample_index: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    ref_logprobs: tuple[float, ...]
    token_ids: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    log_tails: tuple[float, ...]
