"""The command line: a file for each group of verbs, which parse, call and print.

A verb imports what it runs inside its function, so that ``dph --help`` answers at once.
"""

from dph.cli.app import main

__all__ = ["main"]
