"""The command line: one file a verb, each of which parses, calls and prints.

A verb imports what it runs inside its function, so that ``dph --help`` answers at once.
"""

from dph.cli.app import main

__all__ = ["main"]
