"""Modules of tests that need packages of other environments."""

from importlib.util import find_spec

collect_ignore = [
    f"{module}.py"
    for module, package in {
        "box_taskset": "verifiers",
        "gym_taskset": "verifiers",
        "openenv_server": "openenv",
    }.items()
    if find_spec(package) is None
]
"""Modules of helpers whose packages are in the environment of `make test-environments` alone."""
