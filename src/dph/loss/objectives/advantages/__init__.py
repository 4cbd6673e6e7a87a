"""Advantages: from the rewards of a group to the weights of its samples in the loss."""

from dph.loss.objectives.advantages.bbg import BayesianBoundaryGateOfGroup, boundary_gate
from dph.loss.objectives.advantages.distributions import FlowRL
from dph.loss.objectives.advantages.graded import graded_advantages, reads_of
from dph.loss.objectives.advantages.group import (
    DifferentialSmoothing,
    FocalAdvantage,
    GroupAdvantage,
    MaxRL,
    UniformCorrect,
    group_advantages,
    has_signal,
    maxrl_advantages,
)
from dph.loss.objectives.advantages.pass_at_k import PKPO, PassAtK

__all__ = [
    "PKPO",
    "BayesianBoundaryGateOfGroup",
    "DifferentialSmoothing",
    "FlowRL",
    "FocalAdvantage",
    "GroupAdvantage",
    "MaxRL",
    "PassAtK",
    "UniformCorrect",
    "boundary_gate",
    "graded_advantages",
    "group_advantages",
    "has_signal",
    "maxrl_advantages",
    "reads_of",
]
