"""A bound on a worker's memory, so that one answer cannot take the machine's."""

import resource
import sys


def limit_address_space(size: int) -> None:
    """Let allocations beyond ``size`` bytes fail in this process; on Linux alone."""
    if sys.platform == "linux":  # elsewhere RLIMIT_AS is missing or refuses any value
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
