"""Advantages of graded answers: what verl does not have, and groups that were not graded whole.

verl computes its own advantages first and these take their place where they differ. A sample whose
grading broke off is no part of its group; a group whose gold answer cannot be graded has no
advantage at all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from dph.engines.verl.rows import jagged
from dph.loss.objectives import AnyAdvantage, GroupSamples, graded_advantages, reads_of
from dph.recipe.terms import LOGPROBS
from dph.records import UNGRADED, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAnswer:
    """An answer's reward and, where the reward manager said it, its outcome.

    ``logprob`` is the sum over its ``length`` tokens, nats, where the advantage reads it.
    """

    group: str
    reward: float
    outcome: Outcome | None = None
    logprob: float = 0.0
    length: int = 1


def group_values(advantage: AnyAdvantage, answers: Sequence[ScoredAnswer]) -> list[float]:
    """The advantage of every answer; 0 for those that could not be graded."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, answer in enumerate(answers):
        groups[answer.group].append(index)
    longest = max(map(len, groups.values()), default=0)
    rewards = torch.zeros(len(groups), longest)
    logprobs, lengths = torch.zeros_like(rewards), torch.ones_like(rewards, dtype=torch.long)
    graded = torch.zeros_like(rewards, dtype=torch.bool)
    for row, indices in enumerate(groups.values()):
        outcomes = [answers[i].outcome for i in indices]
        for column, index in enumerate(indices):
            rewards[row, column] = answers[index].reward
            logprobs[row, column] = answers[index].logprob
            lengths[row, column] = answers[index].length
            counts = outcomes[column] not in UNGRADED and Outcome.BAD_GOLD not in outcomes
            graded[row, column] = counts
    samples = GroupSamples(logprobs=logprobs, lengths=lengths)
    found = graded_advantages(advantage, rewards, graded, samples).tolist()
    values = [0.0] * len(answers)
    for row, indices in enumerate(groups.values()):
        for column, index in enumerate(indices):
            values[index] = found[row][column]
    return values


def replace_advantages(
    batch: KVBatchMeta, advantage: AnyAdvantage, *, rewards: str, everywhere: bool
) -> int:
    """Write ``advantage`` over verl's; returns the number of answers that were not graded.

    ``rewards`` names the field with the rewards of tokens. It is written ``everywhere``, or only in
    groups that were not graded whole.
    """
    keys = answers_of(batch)
    reads = LOGPROBS in reads_of(advantage)
    fields = [rewards, "response_mask", "extra_fields", *(["old_log_probs"] if reads else [])]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    answers = _answers(keys, data, rewards)
    if reads:
        answers = _with_logprobs(answers, keys, data)
    ungraded = [answer for answer in answers.values() if answer.outcome in UNGRADED]
    groups = {answer.group for answer in (answers.values() if everywhere else ungraded)}
    values = dict(zip(answers, group_values(advantage, list(answers.values())), strict=True))
    rows = [i for i, key in enumerate(keys) if answers[session_of(key)].group in groups]
    if rows:
        masks = list(data["response_mask"].unbind())
        new = jagged([values[session_of(keys[i])] * masks[i].float() for i in rows])
        tq.kv_batch_put(
            keys=[keys[i] for i in rows],
            partition_id=batch.partition_id,
            fields=TensorDict({"advantages": new, "returns": new}, batch_size=len(rows)),
        )
    return len(ungraded)


def _answers(keys: Sequence[str], data: TensorDict, rewards: str) -> dict[str, ScoredAnswer]:
    """The answer of every session; if one has several rows, the last row has it."""
    last: dict[str, int] = {}
    for place, key in enumerate(keys):
        session = session_of(key)
        if session not in last or _index(keys[last[session]]) < _index(key):
            last[session] = place
    scores, extra = list(data[rewards].unbind()), list(data["extra_fields"])
    return {
        session: ScoredAnswer(
            group=session.rpartition("_")[0],
            reward=float(scores[place].sum()),
            outcome=_outcome(extra[place]),
        )
        for session, place in last.items()
    }


def _with_logprobs(
    answers: Mapping[str, ScoredAnswer], keys: Sequence[str], data: TensorDict
) -> dict[str, ScoredAnswer]:
    """The same with log-probs and lengths over all tokens of a session that the policy drew."""
    logprobs: defaultdict[str, float] = defaultdict(float)
    lengths: defaultdict[str, int] = defaultdict(int)
    masks, old = data["response_mask"].unbind(), data["old_log_probs"].unbind()
    for key, mask, values in zip(keys, masks, old, strict=True):
        drawn = mask.bool()
        logprobs[session_of(key)] += float(torch.where(drawn, values, 0.0).double().sum())
        lengths[session_of(key)] += int(drawn.sum())
    return {
        session: replace(answer, logprob=logprobs[session], length=max(1, lengths[session]))
        for session, answer in answers.items()
    }


def session_of(key: str) -> str:
    """``<uid>_<session>`` of verl's key ``<uid>_<session>_<index>``."""
    return key.rpartition("_")[0]


def _index(key: str) -> int:
    return int(key.rpartition("_")[2])


def is_padding(tag: Mapping[str, Any]) -> bool:
    return bool(tag.get("is_padding", False))


def answers_of(batch: KVBatchMeta) -> list[str]:
    """The keys of the rows that are no padding."""
    return [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not is_padding(tag)]


def reward_info(extra_fields: Any) -> Mapping[str, Any]:
    """Report of our reward manager on a row's answer; empty for other managers."""
    fields = getattr(extra_fields, "data", extra_fields)
    said: Mapping[str, Any] = fields.get("reward_extra_info", {})
    return said


def _outcome(extra_fields: Any) -> Outcome | None:
    """The outcome, if our reward manager gave one; of other managers the reward is taken."""
    said = reward_info(extra_fields)
    return Outcome(str(said["outcome"])) if "outcome" in said else None


Verdicts = Mapping[str, Sequence[tuple[float, str]]]
"""For each group (a problem of the step) the rewards and outcomes of its answers."""


def answer_metrics(batch: KVBatchMeta) -> dict[str, float]:
    """Of a step's rows in the transfer queue; nothing if another reward manager graded."""
    keys = answers_of(batch)
    data = tq.kv_batch_get(
        keys=keys, partition_id=batch.partition_id, select_fields=["extra_fields"]
    )
    sessions: dict[str, Mapping[str, Any]] = {}
    for key, extra in zip(keys, data["extra_fields"], strict=True):
        if "outcome" in (said := reward_info(extra)):
            sessions[session_of(key)] = said
    groups: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for session, said in sessions.items():
        groups[session.rpartition("_")[0]].append((float(said["acc"]), str(said["outcome"])))
    return verdict_metrics(groups) if groups else {}


def verdict_metrics(groups: Verdicts) -> dict[str, float]:
    """Means over all answers, and the share of groups whose rewards are all equal.

    >>> found = verdict_metrics({"a": [(1.0, "CORRECT"), (0.0, "WRONG")], "b": [(0.0, "WRONG")]})
    >>> found["dph/correct"] == 1 / 3, found["dph/zero_variance"], found["dph/outcome_wrong"]
    (True, 0.5, 0.6666666666666666)
    """
    answers = [answer for group in groups.values() for answer in group]
    counts = Counter(Outcome(outcome) for _, outcome in answers)
    rewards = [{reward for reward, _ in group} for group in groups.values()]
    return {
        "dph/reward": fmean(reward for reward, _ in answers),
        "dph/correct": counts[Outcome.CORRECT] / len(answers),
        "dph/zero_variance": fmean(len(found) == 1 for found in rewards),
        "dph/unfinished": counts[Outcome.CUT_OFF] / len(answers),
        **{f"dph/outcome_{o.value.lower()}": n / len(answers) for o, n in counts.items()},
    }
