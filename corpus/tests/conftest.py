"""Workers of stages stay for the next stage of a test module: what they import is loaded once."""

import os
from contextlib import contextmanager

import pytest

from dph_corpus import running, steps


@pytest.fixture(scope="module", autouse=True)
def kept_workers():
    pools, open_pool = {}, running.open_pool

    @contextmanager
    def kept(workers):
        around = {name: value for name, value in os.environ.items() if name[:6] != "PYTEST"}
        key = (workers, steps.SECONDS, *sorted(around.items()))
        pool = pools.get(key) or pools.setdefault(key, open_pool(workers))
        try:
            yield pool
        except BaseException:
            pools.pop(key, None)
            pool.close()
            raise

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running, "open_pool", kept)
        yield
    for pool in pools.values():
        pool.close()
