"""What a program of `forked_programs` does, and what all of them import before they are forked."""

import os
import sys

import dph.cli
import dph.quickstart.run
import dph.runs.training_stage  # noqa: F401


def run(asked):
    os.chdir(asked["directory"])
    sys.argv = ["program", *asked["words"]]
    exec(compile(asked["code"], "program", "exec"), {"__name__": "__main__"})
