"""Choices by name that settings offer and other layers take: each list stands here alone."""

from typing import Literal

Engine = Literal["own", "trl", "verl"]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
SharedPrompts = Literal["auto", "always", "never"]
SQLRuleName = Literal["spider", "bird", "bird_soft_f1", "strict", "cartesian"]
WrongFinal = Literal["discard", "explore"]
