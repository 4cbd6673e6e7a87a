"""The text-to-SQL world, second edition: less luck in its design, a base that imitates better."""

from functools import partial

from dph.lab.worlds.sql.base_model import train_base_model
from dph.lab.worlds.sql.editions import (
    QUESTIONS_WITHOUT_ANSWERS,
    TINY,
    TINY_STEPS,
    Edition,
    WorldSizes,
)
from dph.lab.worlds.sql.imitation import STEPS, teach_by_chances
from dph.lab.worlds.sql.knowledge import knowledge_by_part
from dph.lab.worlds.sql.settings import sql_settings
from dph.lab.worlds.sql.world import build_world
from dph.lab.worlds.world import WorldKind

SECOND = Edition(
    number=2,
    schema=3,
    draw_knowledge=knowledge_by_part,
    sizes=WorldSizes(in_domain=300, cross_domain=300),
    unlabelled=QUESTIONS_WITHOUT_ANSWERS,
)


SECOND_EDITION = WorldKind(
    base_steps=STEPS,
    sizes=WorldSizes,
    build=partial(build_world, edition=SECOND),
    train_base_model=partial(train_base_model, teach=teach_by_chances),
    settings=sql_settings,
    tiny=TINY,
    tiny_steps=TINY_STEPS,
)
"""Knowledge is balanced within trained, held-out and cross-domain terms; the base model is taught
by the annotators' own chances."""
