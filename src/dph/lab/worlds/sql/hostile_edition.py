"""The hostile text-to-SQL worlds: shared gaps, and prompts about databases of no test.

Each is the second edition's world of the same seed, with the same tests, and three things more
(docs/hostile-world.md): gaps are shared with a probability, prompts without answers are about
databases of no test unless a recipe asks for others, and nothing that a method or its base model
sees equals a test question but for constants.
"""

from dataclasses import replace
from functools import partial

from dph.errors import SettingsError
from dph.lab.worlds.correlations import CORRELATIONS
from dph.lab.worlds.sql.editions import Edition
from dph.lab.worlds.sql.second_edition import SECOND, SECOND_EDITION, STEPS
from dph.lab.worlds.sql.world import build_world
from dph.lab.worlds.world import WorldKind

BASE_STEPS = STEPS * 9 // 6
"""As many a database as in the second edition: there are nine instead of six."""


def hostile(correlation: float) -> Edition:
    """The edition of a correlation.

    Raises:
        SettingsError: it is not from 0 to 1.
    """
    if not 0 <= correlation <= 1:
        raise SettingsError(f"a correlation of gaps is from 0 to 1, got {correlation}")
    return replace(SECOND, number=1, schema=4, correlation=correlation)


def hostile_edition(correlation: float) -> WorldKind:
    """Edition whose gaps are shared by all annotators with this probability.

    Raises:
        SettingsError: as of ``hostile``.
    """
    return replace(
        SECOND_EDITION,
        base_steps=BASE_STEPS,
        build=partial(build_world, edition=hostile(correlation)),
        unlabelled={"tested": False},
    )


HOSTILE_0 = hostile_edition(CORRELATIONS["sql-hostile-0"])
HOSTILE_25 = hostile_edition(CORRELATIONS["sql-hostile-0.25"])
HOSTILE_50 = hostile_edition(CORRELATIONS["sql-hostile-0.5"])
HOSTILE_75 = hostile_edition(CORRELATIONS["sql-hostile-0.75"])
HOSTILE_100 = hostile_edition(CORRELATIONS["sql-hostile-1"])
