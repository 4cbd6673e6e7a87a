"""Worlds: small tasks of our own, drawn from a seed, whose effects show on a CPU in minutes."""

from lab.worlds.table import WORLDS, world_kind
from lab.worlds.world import PARTS, UNLABELLED, World, WorldKind, fingerprint

__all__ = ["PARTS", "UNLABELLED", "WORLDS", "World", "WorldKind", "fingerprint", "world_kind"]
