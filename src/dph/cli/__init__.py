"""The command line: one file per group of verbs, which parse options, call the package and print.

Each verb imports its implementation inside its function, so that ``dph --help`` is fast.
"""

from dph.cli.app import main

__all__ = ["main"]
