"""Whether what the rule names is there: worlds, evaluation sets, and the k of Pass@k."""

from collections.abc import Collection, Mapping, Sequence

from dph.errors import SettingsError
from dph.lab.study.rule import ComparisonSettings, RuleSettings, metric_names
from dph.lab.study.sites import Site


def require_rule_fits(
    rule: RuleSettings, sites: Sequence[Site], ks: Mapping[str, Collection[int]]
) -> None:
    """Refuse, before anything runs, a rule about what no run will have.

    What is chosen by must be there on every world, what is compared on one of those that it is
    compared on.

    Args:
        rule: the rule.
        sites: what the study runs on.
        ks: by a site's name, the k of Pass@k that all of its runs have.

    Raises:
        SettingsError: names what is not there, and what is.
    """
    choose = rule.choose
    for site in sites:
        fault = _missing(choose.metric, choose.sets or (), site, ks[site.name])
        if fault is not None:
            raise SettingsError(f"the rule's [choose] {fault}")
    for comparison in rule.compare:
        faults = [
            _missing(comparison.metric, comparison.sets, site, ks[site.name])
            for site in _places(comparison, sites)
        ]
        if None not in faults:
            raise SettingsError(f"the rule compares {faults[0]}")


def _places(comparison: ComparisonSettings, sites: Sequence[Site]) -> Sequence[Site]:
    if comparison.world is None:
        return sites
    found = [site for site in sites if site.name == comparison.world]
    if not found:
        raise SettingsError(
            f"the rule compares on the world {comparison.world!r}; there are "
            f"{', '.join(site.name for site in sites)}"
        )
    return found


def _missing(metric: str, sets: Sequence[str], site: Site, ks: Collection[int]) -> str | None:
    """What a world lacks of a metric on some sets; None where it lacks nothing."""
    for name in sets:
        if name not in site.sets:
            return f"on the set {name!r}; {site.name} has {', '.join(site.sets) or 'none'}"
    for name in metric_names(metric):
        _, _, k = name.partition("@")
        if k and int(k) not in ks:
            return f"by {name}; {site.name} has k of {', '.join(map(str, sorted(ks)))}"
    return None
