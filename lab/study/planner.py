"""Runs of a study, as far as the finished ones decide them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean

from dph.errors import SettingsError
from lab.study.candidates import (
    Candidate,
    Variants,
    candidates_of,
    is_developed,
    number_of_candidates,
    require_no_circle,
)
from lab.study.plan import (
    DEVELOPMENT,
    REPORT,
    Choice,
    Plan,
    Rows,
    Run,
    Undecided,
    best_candidate,
    development_score,
)
from lab.study.settings import (
    BASE,
    ComparisonSettings,
    MethodSettings,
    RuleSettings,
    Study,
    metric_names,
)
from lab.study.sites import Site, sites_of

# Whether what the rule names is there: worlds, evaluation sets, and the k of Pass@k.


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
    """The first value of a metric that a world lacks on some sets; None if it lacks nothing."""
    for name in sets:
        if name not in site.sets:
            return f"on the set {name!r}; {site.name} has {', '.join(site.sets) or 'none'}"
    for name in metric_names(metric):
        kind, _, k = name.partition("@")
        if kind in ("pass", "front", "matched") and int(k) not in ks:
            return f"by {name}; {site.name} has k of {', '.join(map(str, sorted(ks)))}"
    return None


class Planner:
    """Makes plans of a study: pure in the finished runs, so that every start continues alike.

    ``locked`` are choices that were made before runs on report seeds, by world and label: they
    hold as long as the same candidates are asked for.
    """

    def __init__(
        self, study: Study, locked: Mapping[tuple[str, str], Choice] | None = None
    ) -> None:
        require_no_circle(study.file)
        self.study = study
        self._locked = locked or {}
        self.sites = sites_of(study.file, study.path.parent)
        self.variants = Variants(study.file.budget)
        self._check_settings()

    def plan(self, rows: Rows) -> Plan:
        """The decisions that follow when these runs are finished."""
        choices: dict[tuple[str, str], Choice] = {}
        tried: dict[tuple[str, str], tuple[Candidate, ...]] = {}
        waiting = list(self.study.file.methods)
        while True:
            for method in waiting:
                if all((site.name, method.label) in tried for site in self.sites):
                    continue
                self._find_candidates(method, choices, tried)
            before = len(choices)
            self._choose(waiting, tried, choices, rows)
            waiting = [
                m for m in waiting if any((s.name, m.label) not in choices for s in self.sites)
            ]
            if len(choices) == before:
                break
        return Plan(
            runs=tuple(self._runs(tried, choices)),
            undecided=tuple(self._undecided(tried, choices)),
            choices=choices,
        )

    def _find_candidates(
        self,
        method: MethodSettings,
        choices: Mapping[tuple[str, str], Choice],
        tried: dict[tuple[str, str], tuple[Candidate, ...]],
    ) -> None:
        for site in self.sites:
            found = candidates_of(
                method,
                self.study.file,
                chosen={
                    label: c.chosen for (world, label), c in choices.items() if world == site.name
                },
                usual_strength=site.usual_strength(method.name),
            )
            if found is not None:
                tried[site.name, method.label] = found

    def _choose(
        self,
        methods: Sequence[MethodSettings],
        tried: Mapping[tuple[str, str], tuple[Candidate, ...]],
        choices: dict[tuple[str, str], Choice],
        rows: Rows,
    ) -> None:
        for method in methods:
            places = [(site, tried.get((site.name, method.label))) for site in self.sites]
            scores = {
                site.name: self._scores(site, method, found, rows)
                for site, found in places
                if found is not None
            }
            together = self.study.rule.choose.worlds == "all" and number_of_candidates(method) > 1
            for site, found in places:
                key = (site.name, method.label)
                if found is None or key in choices:
                    continue
                if key in self._locked and set(self._locked[key].tried) == set(found):
                    choices[key] = self._locked[key]
                    continue
                counted = list(scores.values()) if together else [scores[site.name]]
                if together and len(scores) < len(self.sites):
                    continue
                place = self._place(found, counted)
                if place is not None:
                    choices[key] = Choice(
                        tried=found, scores=scores[site.name], chosen=found[place]
                    )

    def _place(
        self, found: Sequence[Candidate], scores: Sequence[Sequence[float | None]]
    ) -> int | None:
        """The chosen candidate; None while a development run is missing."""
        if len(found) == 1:
            return 0
        means = [_mean([of_site[i] for of_site in scores]) for i in range(len(found))]
        known = [mean for mean in means if mean is not None]
        if len(known) < len(means):
            return None
        return best_candidate(found, known, self.study.rule.choose)

    def _scores(
        self, site: Site, method: MethodSettings, found: Sequence[Candidate], rows: Rows
    ) -> tuple[float | None, ...]:
        seeds = self.study.file.study.seeds_development
        scores: list[float | None] = []
        for candidate in found:
            variant = self.variants.of(site, method, candidate)
            ids = [variant.run_id(seed) for seed in seeds]
            there = bool(ids) and is_developed(method) and all(i in rows for i in ids)
            finished = [rows[i] for i in ids] if there else []
            scores.append(development_score(finished, self.study.rule.choose) if finished else None)
        return tuple(scores)

    def _runs(
        self,
        tried: Mapping[tuple[str, str], tuple[Candidate, ...]],
        choices: Mapping[tuple[str, str], Choice],
    ) -> Iterator[Run]:
        """Development before report, seed by seed; within a seed in the study's order."""
        settings = self.study.file.study
        for split, seeds in (
            (DEVELOPMENT, settings.seeds_development),
            (REPORT, settings.seeds_report),
        ):
            for seed in seeds:
                for site in self.sites:
                    base = self.variants.base(site)
                    yield Run(variant=base, label=BASE, seed=seed, split=split)
                    for method in self.study.file.methods:
                        key = (site.name, method.label)
                        if split == DEVELOPMENT and is_developed(method):
                            found: Sequence[Candidate] = tried.get(key, ())
                        elif split == REPORT and key in choices:
                            found = [choices[key].chosen]
                        else:
                            found = ()
                        for candidate in found:
                            variant = self.variants.of(site, method, candidate)
                            yield Run(variant=variant, label=method.label, seed=seed, split=split)

    def _undecided(
        self,
        tried: Mapping[tuple[str, str], tuple[Candidate, ...]],
        choices: Mapping[tuple[str, str], Choice],
    ) -> Iterator[Undecided]:
        """The runs that may still be added by choices that were not made yet."""
        settings = self.study.file.study
        for site in self.sites:
            for method in self.study.file.methods:
                key, seeds = (site.name, method.label), list[int]()
                if key not in tried and is_developed(method):
                    seeds += settings.seeds_development * number_of_candidates(method)
                if key not in choices:
                    seeds += settings.seeds_report
                if seeds:
                    yield Undecided(site=site, method=method, seeds=tuple(seeds))

    def _check_settings(self) -> None:
        """Every value of every grid and the rule, before anything runs."""
        ks: dict[str, frozenset[int]] = {}
        for site in self.sites:
            for method in self.study.file.methods:
                rates = method.learning_rates or (None,)
                for strength, rate in product(method.strengths or (None,), rates):
                    candidate = Candidate(strength=strength, learning_rate=rate)
                    found = frozenset(self.variants.of(site, method, candidate).k)
                    ks[site.name] = ks.get(site.name, found) & found
        require_rule_fits(self.study.rule, self.sites, ks)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
