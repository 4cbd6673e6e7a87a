import resource
import subprocess
import sys

import pytest

_CODE = """
from dph._processes.workers.handler import limit_address_space
limit_address_space(2_000_000_000)
try:
    bytearray(3_000_000_000)
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_an_allocation_beyond_the_limit_fails():
    before = resource.getrlimit(resource.RLIMIT_AS)
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert resource.getrlimit(resource.RLIMIT_AS) == before
