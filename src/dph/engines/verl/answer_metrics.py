"""What a step's answers were worth, under the names of ``metrics.jsonl`` after ``dph/``.

verl's own metrics tell rewards with penalties, and nothing of outcomes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from dph.engines.verl.advantages import is_padding, reward_info, session_of
from dph.records import Outcome

Verdicts = Mapping[str, Sequence[tuple[float, str]]]
"""For each group (a problem of the step) the rewards and outcomes of its answers."""


def answer_metrics(batch: KVBatchMeta) -> dict[str, float]:
    """Of a step's rows in the transfer queue; nothing where another reward manager graded."""
    keys = [k for k, tag in zip(batch.keys, batch.tags, strict=True) if not is_padding(tag)]
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
    """Means over all answers, and the share of groups whose rewards are all the same.

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
        **{f"dph/outcome_{o.value.lower()}": n / len(answers) for o, n in counts.items()},
    }
