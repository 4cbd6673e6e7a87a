"""Advantages: how rewards of a group become what its samples are weighted with, one rule a file."""

from dph.objectives.advantages.alpha_dpg import AlphaDPG, alpha_pseudo_rewards
from dph.objectives.advantages.bbg import (
    BayesianBoundaryGate,
    BayesianBoundaryGateOfGroup,
    boundary_gate,
)
from dph.objectives.advantages.differential_smoothing import DifferentialSmoothing
from dph.objectives.advantages.f_grpo import FocalAdvantage
from dph.objectives.advantages.flowrl import FlowRL
from dph.objectives.advantages.graded import graded_advantages
from dph.objectives.advantages.group import GroupAdvantage, group_advantages, has_signal
from dph.objectives.advantages.maxrl import MaxRL, maxrl_advantages
from dph.objectives.advantages.pass_at_k import PassAtK
from dph.objectives.advantages.pkpo import PKPO
from dph.objectives.advantages.reads import reads_of
from dph.objectives.advantages.ucpo import UniformCorrect

__all__ = [
    "PKPO",
    "AlphaDPG",
    "BayesianBoundaryGate",
    "BayesianBoundaryGateOfGroup",
    "DifferentialSmoothing",
    "FlowRL",
    "FocalAdvantage",
    "GroupAdvantage",
    "MaxRL",
    "PassAtK",
    "UniformCorrect",
    "alpha_pseudo_rewards",
    "boundary_gate",
    "graded_advantages",
    "group_advantages",
    "has_signal",
    "maxrl_advantages",
    "reads_of",
]
