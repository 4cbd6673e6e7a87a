"""The rules by which a predicted result is compared with the gold's. One file per rule."""

from collections.abc import Mapping
from types import MappingProxyType

from dph.errors import SettingsError
from dph.tasks.verifiers.sql.rules.base import Comparison, Row, Rows, SQLRule
from dph.tasks.verifiers.sql.rules.bird import BIRD, BIRD_SOFT_F1
from dph.tasks.verifiers.sql.rules.spider import CARTESIAN, SPIDER
from dph.tasks.verifiers.sql.rules.strict import STRICT

__all__ = ["RULES", "Comparison", "Row", "Rows", "SQLRule", "sql_rule"]

RULES: Mapping[str, SQLRule] = MappingProxyType(
    {rule.name: rule for rule in (SPIDER, BIRD, BIRD_SOFT_F1, STRICT, CARTESIAN)}
)


def sql_rule(name: str) -> SQLRule:
    """The rule called ``name``."""
    if name not in RULES:
        raise SettingsError(f"there is no SQL rule {name!r}; it is one of {', '.join(RULES)}")
    return RULES[name]
