"""Random numbers by key: (seed, names) decide the numbers, not what was drawn before."""

import hashlib
import json

import numpy as np
from numpy.typing import NDArray


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A separate generator for (``seed``, ``names``), independent of every other key.

    Source: Philox, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); its key is
    a BLAKE2b hash of the arguments.

    >>> generator(0, "step", 3).random() == generator(0, "step", 3).random()
    True
    >>> generator(0, "step", 3).random() == generator(0, "step", 4).random()
    False
    """
    text = json.dumps([int(seed), *names])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, dtype="<u8")))


def uniforms(*, seed: int, problem_id: str, sample_index: int, count: int) -> NDArray[np.float64]:
    """The uniform numbers in [0, 1) of one sample, one for each token.

    They depend only on (``seed``, ``problem_id``, ``sample_index``), and a larger ``count`` only
    adds numbers at the end.
    """
    return generator(seed, "sample", problem_id, int(sample_index)).random(count)


def derived_seed(seed: int, *names: str | int) -> int:
    """A separate seed for (``seed``, ``names``), in [0, 2**63).

    >>> derived_seed(0, "rollout", 1) == derived_seed(0, "rollout", 2)
    False
    """
    return int(generator(seed, "derived", *names).integers(2**63))
