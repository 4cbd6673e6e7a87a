"""A store on disk: written whole, checked before it is used, and read as what an anchor rehearses.

    stores/<name>/
      manifest.json   what it was made from, counts, SHA-256 of every file
      groups.parquet  a row for each prompt: its answers, and next-token distributions in float16
      values.parquet  a row for each answer: its class, agreement and correctness (where they were
                      asked for)

What the columns hold stands in docs/artefacts.md.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.randomness import generator
from dph.errors import PoolError
from dph.runs.presample.making import write_answers
from dph.runs.presample.manifest import (
    Manifest,
    Source,
    ValueSource,
    read_manifest,
    require_whole,
)
from dph.runs.presample.stores.groups import (
    StoredGroup,
    branch_factors,
    branch_values,
    groups_of,
    require_whole_distributions,
    schema_like,
    tilted,
)
from dph.runs.presample.stores.values import VALUES, Valued, distinct_agreement, values_by_prompt
from dph.runs.presample.tables import DistributionSample

# Weight of each stored answer: the choices of ``stores.<name>.values``, one function each.


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuedAnswers:
    """The answers to one prompt: what they come to, their texts, and the seed that drew them."""

    problem_id: str
    values: Sequence[Valued]
    texts: Sequence[str]
    seed: int


def majority_vote(classes: Sequence[int | None]) -> list[float]:
    """1 for every answer of the largest class, 0 for all others: a hard vote.

    Of several classes of that size all win: which of them was drawn first depends on the seed and
    says nothing. A class of one is no majority, as an answer alone has agreement 0: where no two
    agree, nobody wins. An answer without a class votes for nothing.

    **Source**: self-consistency's vote (arXiv:2203.11171), which LMSI learns from
    (arXiv:2210.11610). Neither says what a tie is worth.

    >>> majority_vote([0, 1, 1, None]), majority_vote([0, 0, 1, 1, 2]), majority_vote([0, 1])
    ([0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0])
    """
    sizes = Counter[int | None](own for own in classes if own is not None)  # None has size 0
    largest = max(sizes.values(), default=0)
    return [float(1 < sizes[own] == largest) for own in classes]


def shuffled(weights: Sequence[float], *, seed: int, problem_id: str) -> list[float]:
    """The same weights, each at another answer to the prompt: a control that knows nothing.

    The order is a function of (``seed``, ``problem_id``) and the number of answers alone.
    """
    order = generator(seed, "shuffled values", problem_id).permutation(len(weights))
    return [weights[place] for place in order]


def _agreement(answers: ValuedAnswers) -> list[float]:
    return [float(value.agreement or 0.0) for value in answers.values]


def _distinct(answers: ValuedAnswers) -> list[float]:
    return distinct_agreement(_classes(answers), answers.texts)


def _correct(answers: ValuedAnswers) -> list[float]:
    return [float(value.correct or 0) for value in answers.values]


def _classes(answers: ValuedAnswers) -> list[int | None]:
    return [value.answer_class for value in answers.values]


def _shuffled(weigh: Callable[[ValuedAnswers], list[float]]) -> Callable[..., list[float]]:
    return lambda own: shuffled(weigh(own), seed=own.seed, problem_id=own.problem_id)


WEIGHTS: Mapping[str, Callable[[ValuedAnswers], list[float]]] = {
    "agreement": _agreement,
    "distinct": _distinct,
    "majority": lambda answers: majority_vote(_classes(answers)),
    "shuffled": _shuffled(_agreement),
    "shuffled_distinct": _shuffled(_distinct),
    "correct": _correct,
}
"""By the name of ``values``: the weight of each answer to a prompt."""


# Targets of an anchor on stored answers: tilted distributions along them, or their own tokens.


def tilted_answers(
    group: StoredGroup, weights: Sequence[float] | None, tilt: float
) -> list[DistributionSample]:
    """Every answer with the distributions along it, raised towards answers of larger weight.

    Without ``weights`` they are the policy's own. In a trajectory only the policy's tokens have
    distributions; one that failed before the policy wrote any is left out.
    """
    trie = group.trie
    factors = None
    if weights is not None:
        factors = branch_factors(trie, branch_values(trie, weights), tilt)
    targets: dict[int, tuple[tuple[int, ...], tuple[float, ...], float]] = {}
    for node, ids, numbers, tail in zip(
        trie.inner, group.token_ids, group.logprobs, group.log_tails, strict=True
    ):
        own, rest = tilted(ids, numbers, tail, factors[node] if factors else {})
        targets[node] = ids, tuple(own.tolist()), rest
    return [
        DistributionSample(
            problem_id=group.problem.problem_id,
            sample_index=index,
            prompt_ids=group.prompt_ids,
            completion_ids=completion,
            ref_logprobs=logprobs,
            token_ids=tuple(targets[node][0] for node in nodes),
            logprobs=tuple(targets[node][1] for node in nodes),
            log_tails=tuple(targets[node][2] for node in nodes),
            written=group.acting.written[index] if group.acting else None,
        )
        for index, (completion, logprobs, nodes) in enumerate(
            zip(group.completions, group.ref_logprobs, group.nodes(trie), strict=True)
        )
        if nodes
    ]


def chosen_answers(group: StoredGroup, weights: Sequence[float]) -> list[DistributionSample]:
    """The answers of weight 1, each token the whole of its target: plain likelihood.

    Equation: KL(one-hot at y_t || pi) = -log pi(y_t | x, y_<t), so that the forward KL from these
    targets is the negative log-likelihood of the chosen answers, each as often as it was drawn.
    In a trajectory, these are the policy's own tokens.
    **Source**: LMSI (arXiv:2210.11610) with the weights of a vote, RFT (arXiv:2308.01825) with
    those of right answers.
    **Differs from the paper**: RFT keeps of right answers with the same equations one.
    """
    return [
        replace(
            answer,
            token_ids=tuple((token,) for token in answer.own_tokens),
            logprobs=((0.0,),) * len(answer.ref_logprobs),
            log_tails=(-math.inf,) * len(answer.ref_logprobs),
        )
        for answer in tilted_answers(group, None, 0.0)
        if weights[answer.sample_index] == 1
    ]


GROUPS_FILE, VALUES_FILE = "groups.parquet", "values.parquet"


def write_store(
    path: Path,
    *,
    source: Source,
    groups: Sequence[pa.Table],
    values: pa.Table | None = None,
    value_source: ValueSource | None = None,
    about: Mapping[str, Any],
) -> Manifest:
    """Write a store atomically: all of it is there afterwards, or what was there before.

    ``groups`` come in the pieces they were drawn in. ``about`` are the counts but for sizes in
    bytes.
    """
    tables = {GROUPS_FILE: (schema_like(groups[0].schema), groups)}
    if values is not None:
        tables[VALUES_FILE] = (VALUES, [values])
    return write_answers(path, "store", tables, source=source, values=value_source, counts=about)


def load_store(
    path: str | Path,
    *,
    tilt: float = 0.0,
    values: str = "agreement",
    targets: str = "distributions",
) -> tuple[DistributionSample, ...]:
    """The answers of a store with the distributions to rehearse, after comparing every hash.

    Args:
        path: the store's directory.
        tilt: strength of the tilt; 0 gives the initial policy's own distributions.
        values: of the answers, one of ``WEIGHTS``; read only with a tilt or answers as targets.
        targets: ``distributions``, or ``answers``: those of weight 1, token by token as they are.

    Raises:
        PoolError: a file is missing or is not the one that was written, a distribution is without
            its tail, or the store does not hold the values that are needed, or no answer of them.
    """
    path = Path(path)
    manifest = read_manifest(path, "store")
    require_whole(path, manifest)
    groups = stored_groups(path)
    require_whole_distributions(groups)
    if targets == "answers":
        weights = stored_weights(path, manifest, values, groups)
        return _chosen(path, groups, weights, values)
    if not tilt > 0:
        return tuple(sample for group in groups for sample in tilted_answers(group, None, tilt))
    weights = stored_weights(path, manifest, values, groups)
    return tuple(
        sample
        for group in groups
        for sample in tilted_answers(group, weights[group.problem.problem_id], tilt)
    )


def _chosen(
    path: Path, groups: Sequence[StoredGroup], weights: Mapping[str, Sequence[float]], values: str
) -> tuple[DistributionSample, ...]:
    found = tuple(
        sample
        for group in groups
        for sample in chosen_answers(group, weights[group.problem.problem_id])
    )
    if not found:
        raise PoolError(
            f"the store {path}: no answer to any prompt has the value 1 (values = {values!r}), so "
            "there is nothing to learn: draw more answers, or ask other prompts"
        )
    return found


def stored_groups(path: Path) -> list[StoredGroup]:
    """The prompts of a store with their answers."""
    file = path / GROUPS_FILE
    return list(groups_of(pq.read_table(file, schema=schema_like(pq.read_schema(file)))))


def stored_values(path: Path) -> dict[str, list[Valued]]:
    """Values of the answers to each prompt, by its id.

    Raises:
        PoolError: the answers of this store were neither compared nor graded.
    """
    if not (path / VALUES_FILE).exists():
        raise PoolError(
            f"the answers of the store {path} were not compared with each other: `dph presample` "
            f"does it without drawing"
        )
    return values_by_prompt(pq.read_table(path / VALUES_FILE, schema=VALUES))


def stored_weights(
    path: Path, manifest: Manifest, values: str, groups: Sequence[StoredGroup]
) -> dict[str, list[float]]:
    """The weight of each answer, by the prompt's id.

    Raises:
        PoolError: the store does not hold these values.
    """
    known = stored_values(path) if manifest.values is not None else {}
    kind = "graded" if values == "correct" else "compared"
    if manifest.values is None or not getattr(manifest.values, f"{kind}_by"):
        raise PoolError(
            f"values = {values!r} needs answers that were {kind}, those of the store {path} were "
            "not: `dph presample` does it without drawing, or set tilt = 0 and "
            "targets = 'distributions'"
        )
    graded = (value.correct is not None for own in known.values() for value in own)
    if values == "correct" and not any(graded):
        raise PoolError(
            f"the store {path}: no answer could be graded, so there is nothing to learn from: set "
            "values = 'agreement' or tilt = 0"
        )
    return {
        group.problem.problem_id: WEIGHTS[values](
            ValuedAnswers(
                problem_id=group.problem.problem_id,
                values=known[group.problem.problem_id],
                texts=group.texts,
                seed=manifest.source.seed,
            )
        )
        for group in groups
    }


# Accuracy of the answer that a store tilts towards, where labels tell.


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Result of agreement on the labelled prompts of a store.

    Attributes:
        prompts: how many were graded.
        share: of them, those with a consensus: an answer with which another one agrees.
        right: of those with a consensus, the share whose consensus is right; None without any. Of
            classes that weigh the same each counts its part.
        answers_right: share of all answers to the graded prompts that are right.
    """

    prompts: int
    share: float
    right: float | None
    answers_right: float


def store_vote(path: Path, *, values: str) -> Vote | None:
    """The vote of a store whose answers weigh by ``values``, as its tilt does.

    None where no prompt is labelled, so where nobody knows what is right.

    Raises:
        PoolError: the store's answers were not compared.
    """
    manifest = read_manifest(path, "store")
    if manifest.values is None or not manifest.counts.labelled:
        return None
    weights = stored_weights(path, manifest, values, stored_groups(path))
    return vote(stored_values(path), weights)


def vote(
    groups: Mapping[str, Sequence[Valued]], weights: Mapping[str, Sequence[float]]
) -> Vote | None:
    """The vote of answers by prompt that weigh so much; None where none was graded."""
    graded = {i: group for i, group in groups.items() if any(v.correct is not None for v in group)}
    if not graded:
        return None
    found = (_consensus(group, weights[i]) for i, group in graded.items())
    known = [right for right in found if right is not None]
    return Vote(
        prompts=len(graded),
        share=len(known) / len(graded),
        right=fmean(known) if known else None,
        answers_right=fmean(bool(v.correct) for group in graded.values() for v in group),
    )


def _consensus(group: Sequence[Valued], weights: Sequence[float]) -> float | None:
    """Whether the answers of the largest weight are right; None where no two agree."""
    if max(weights) <= 0:
        return None
    leading = {
        value.answer_class: bool(value.correct)
        for value, weight in zip(group, weights, strict=True)
        if weight == max(weights)
    }
    return fmean(leading.values())
