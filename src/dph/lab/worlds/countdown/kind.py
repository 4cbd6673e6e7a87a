"""Countdown as a kind of world: a row of ``dph.lab.worlds.table``."""

from dph.lab.worlds.countdown.base_model import STEPS, train_base_model
from dph.lab.worlds.countdown.settings import countdown_settings
from dph.lab.worlds.countdown.world import WorldSizes, build_world
from dph.lab.worlds.world import WorldKind

COUNTDOWN = WorldKind(
    base_steps=STEPS,
    sizes=WorldSizes,
    build=build_world,
    train_base_model=train_base_model,
    settings=countdown_settings,
)
"""Four small numbers in domain, three larger ones across; two sets."""
