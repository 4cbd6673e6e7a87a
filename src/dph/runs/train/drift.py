"""Distance of the policy from the initial policy, on its own answers and on stored ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path
from dph.errors import DataError
from dph.model.forward.compared import ComparedTokens
from dph.runs.evaluate.progress_file import BaseDistance
from dph.runs.presample.tables import WRITTEN
from dph.runs.train.loss_batch import TrainingForward

# Answers of the initial policy, drawn once and kept: where later policies are compared with it.

SCHEMA = 1
_COLUMNS = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
    ]
)
_DIGEST, _VERSION = b"dph.digest", b"dph.schema"


class AnswerTokens(NamedTuple):
    """Tokens of an answer; of a trajectory also which of them the policy wrote."""

    token_ids: tuple[int, ...]
    written: tuple[bool, ...] | None = None


Group = Sequence[AnswerTokens]
"""Some answers to one problem."""
Answers = Mapping[str, Sequence[Group]]
"""By set, for each of its problems in order, some answers."""


def write_initial_answers(
    path: Path, answers: Answers, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> None:
    """Write the answers to the problems of every set, whole or not at all.

    ``digest`` names what they were drawn with.
    """
    rows = [
        {"set": name, "problem_id": problem, "sample_index": index, **answer._asdict()}
        for name, groups in answers.items()
        for problem, group in zip(problem_ids[name], groups, strict=True)
        for index, answer in enumerate(group)
    ]
    acting = any(row["written"] is not None for row in rows)
    columns = _COLUMNS.append(WRITTEN) if acting else _COLUMNS
    schema = columns.with_metadata({_DIGEST: digest.encode(), _VERSION: str(SCHEMA).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def read_initial_answers(
    path: Path, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> Answers | None:
    """The answers to the problems of every set; None where there are none with this digest.

    Raises:
        DataError: the file is damaged.
    """
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(_DIGEST) != digest.encode():
            return None
        found: dict[tuple[str, str], list[AnswerTokens]] = {}
        for row in table.to_pylist():
            mine = row.get(WRITTEN.name)
            answer = AnswerTokens(tuple(row["token_ids"]), None if mine is None else tuple(mine))
            found.setdefault((row["set"], row["problem_id"]), []).append(answer)
        return {
            name: [found[name, problem] for problem in problems]
            for name, problems in problem_ids.items()
        }
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{path} is damaged: {error}; remove it to continue") from error


def drift(
    forward: TrainingForward,
    prompts: Sequence[Sequence[int]],
    new: Sequence[Group],
    stored: Sequence[Group] | None,
) -> list[BaseDistance | None]:
    """Entropy and both divergences for each problem, means over the tokens of its answers.

    ``new`` are answers that the policy drew just now. Their reverse KL is an unbiased estimate of
    that of whole answers, in nats a token: positions come as the policy meets them. ``stored`` are
    answers of the initial policy, of which the same holds for the forward KL. The other two are
    taken where the other policy goes: they say how far the policies are apart there, and are no
    estimate of a divergence of whole answers. ``stored`` None: the new ones are the initial
    policy's own. None where no answer has a token of the policy.

    ``forward`` says how the policy is scored, and holds the initial policy as its reference.

    Raises:
        DataError: it holds none.
    """
    # All in one call: what rows begin with alike, their prompts, is computed once.
    both = [[*mine, *theirs] for mine, theirs in zip(new, stored or [()] * len(new), strict=True)]
    found = []
    for tokens, mine in zip(_scored(forward, prompts, both), new, strict=True):
        on_new, on_stored = tokens[: len(mine)], tokens[len(mine) :]
        found.append(_joined(on_new, on_new if stored is None else on_stored))
    return found


def _scored(
    forward: TrainingForward, prompts: Sequence[Sequence[int]], groups: Sequence[Group]
) -> list[list[ComparedTokens]]:
    if forward.reference is None:
        raise DataError(
            "comparing the policy with the initial policy needs the initial policy, "
            "which is not loaded"
        )
    rows = [(i, answer) for i, group in enumerate(groups) for answer in group]
    found = forward.compared(
        forward.model,
        forward.reference,
        [prompts[i] for i, _ in rows],
        [answer.token_ids for _, answer in rows],
        [answer.written for _, answer in rows],
    )
    scored: list[list[ComparedTokens]] = [[] for _ in groups]
    for (i, _), tokens in zip(rows, found, strict=True):
        scored[i].append(tokens)
    return scored


def _joined(new: Sequence[ComparedTokens], stored: Sequence[ComparedTokens]) -> BaseDistance | None:
    if not (any(map(len, new)) and any(map(len, stored))):
        return None
    return BaseDistance(
        entropy=fmean(value for tokens in new for value in tokens.entropy),
        reverse_kl=fmean(value for tokens in new for value in tokens.reverse_kl),
        forward_kl=fmean(value for tokens in new for value in tokens.forward_kl),
        stored_reverse_kl=fmean(value for tokens in stored for value in tokens.reverse_kl),
        stored_forward_kl=fmean(value for tokens in stored for value in tokens.forward_kl),
        compared_tokens=sum(map(len, new)),
        stored_tokens=sum(map(len, stored)),
    )
