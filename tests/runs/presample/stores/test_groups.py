"""Groups of a store: a file gives them back, and a distribution without its tail is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dph.errors import PoolError
from dph.records import Problem
from dph.runs.presample.stores.groups import (
    StoredGroup,
    groups_of,
    groups_table,
    require_whole_distributions,
)

WHOLE = StoredGroup(
    problem=Problem(problem_id="p", prompt="say a", answer={"answer": "a"}),
    prompt_ids=(5, 6),
    texts=("a", "b"),
    finished=(True, True),
    completions=((1, 9), (2, 9)),
    ref_logprobs=((-0.7, -0.1), (-1.4, -0.2)),
    token_ids=((1, 2), (9,), (9, 3)),
    logprobs=(np.log([0.5, 0.25]), np.log([0.75]), np.log([0.875, 0.125])),
    log_tails=(math.log(0.25), math.log(0.25), -math.inf),
)


def test_a_file_gives_back_what_it_got_in_float16():
    (again,) = groups_of(groups_table([WHOLE]))
    assert replace(again, logprobs=(), log_tails=(), ref_logprobs=()) == replace(
        WHOLE, logprobs=(), log_tails=(), ref_logprobs=()
    )
    for one, other in zip(again.logprobs, WHOLE.logprobs, strict=True):
        assert one == pytest.approx(other, rel=2**-11)
    assert again.log_tails == pytest.approx(WHOLE.log_tails, rel=2**-11)
    require_whole_distributions([again])


@pytest.mark.parametrize(
    ("tails", "mass"),
    [
        ((-math.inf, math.log(0.25), -math.inf), "0.750"),
        ((math.log(0.25), math.log(0.5), -math.inf), "1.250"),
        ((math.log(0.25), math.log(0.25), math.nan), "nan"),
    ],
)
def test_a_sum_over_some_tokens_alone_is_refused(tails, mass):
    with pytest.raises(PoolError, match=rf"the answers to 'p' adds up to {mass}, not to 1"):
        require_whole_distributions([WHOLE, replace(WHOLE, log_tails=tails)])
