import math
from dataclasses import replace

import pytest

from dph.errors import DataError
from dph.runs.presample.tables import DistributionSample
from dph.runs.train.loss_batch import target_buckets

SAMPLE = DistributionSample(
    problem_id="p",
    sample_index=4,
    prompt_ids=(3,),
    completion_ids=(5, 6),
    ref_logprobs=(-0.5, -0.25),
    token_ids=((5, 7), (6,)),
    logprobs=((-0.5, -1.0), (-0.25,)),
    log_tails=(-2.0, -math.inf),
)


def test_positions_follow_each_other_and_short_ones_repeat_a_token_without_mass():
    found = target_buckets([SAMPLE, SAMPLE])
    assert found.ids.tolist() == [[5, 7], [6, 6]] * 2
    nothing = -math.inf
    assert found.targets.tolist() == [[-0.5, -1.0, -2.0], [-0.25, nothing, nothing]] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"log_tails": (-2.0,)},
        {"token_ids": ((5, 7),)},
        {"logprobs": ((-0.5,), (-0.25,))},
        {"token_ids": ((), (6,)), "logprobs": ((), (-0.25,))},
    ],
)
def test_a_sample_that_does_not_say_what_each_token_needs_is_refused(changes):
    with pytest.raises(DataError, match="stored distributions of 'p', sample 4: need tokens, as"):
        target_buckets([replace(SAMPLE, **changes)])
