"""The runs of a study, in order, and what was chosen so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from dph.lab.study.choice import Choice
from dph.lab.study.rows import RowFile
from dph.lab.study.settings import MethodSettings
from dph.lab.study.sites import Site
from dph.lab.study.candidates import Variant
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dph.errors import SettingsError
from dph.lab.study.settings import BASE, StudyFile
from dph.lab.study.sites import Site


DEVELOPMENT, REPORT = "development", "report"
Rows = Mapping[str, RowFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the study, under one label. Several labels may ask for the same run."""

    variant: Variant
    label: str
    seed: int
    split: str

    @property
    def id(self) -> str:
        """The name of its results."""
        return self.variant.run_id(self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """Runs of a method in a world that wait for choices: a seed for each, at most so many."""

    site: Site
    method: MethodSettings
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All runs that are decided, in the order in which they are best made, and what is undecided.

    ``choices`` are by world and label; ``left_out`` are labels that ``if_best`` kept from being
    reported.
    """

    runs: tuple[Run, ...]
    undecided: tuple[Undecided, ...]
    choices: Mapping[tuple[str, str], Choice]
    left_out: frozenset[tuple[str, str]]

    @property
    def total(self) -> int:
        """How many different runs there are, those that are not decided yet among them."""
        return len({run.id for run in self.runs}) + sum(len(left.seeds) for left in self.undecided)

    def missing(self, rows: Rows) -> list[Run]:
        """The runs that are not finished, each once, in order."""
        wanted = {run.id: run for run in reversed(self.runs) if run.id not in rows}
        return [run for run in self.runs if wanted.get(run.id) is run]


# Which runs of a study were asked for.

@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Those of the named worlds, methods and seeds; nothing named of a kind stands for all."""

    worlds: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    seeds: frozenset[int] = frozenset()

    def __call__(self, run: Run) -> bool:
        """Whether a run was asked for."""
        return self._has(run.variant.site, {run.label, run.variant.method}) and (
            not self.seeds or run.seed in self.seeds
        )

    def of(self, plan: Plan) -> Plan:
        """What is asked for of a plan."""
        return Plan(
            runs=tuple(run for run in plan.runs if self(run)),
            undecided=tuple(left for each in plan.undecided if (left := self._part(each)).seeds),
            choices=plan.choices,
            left_out=plan.left_out,
        )

    def _part(self, left: Undecided) -> Undecided:
        here = self._has(left.site, {left.method.label, left.method.name})
        seeds = [s for s in left.seeds if here and (not self.seeds or s in self.seeds)]
        return Undecided(site=left.site, method=left.method, seeds=tuple(seeds))

    def _has(self, site: Site, names: Iterable[str | None]) -> bool:
        return (not self.worlds or bool(self.worlds & {site.name, site.task})) and (
            not self.methods or bool(self.methods & set(names))
        )


def wanted_runs(only: Sequence[str], file: StudyFile, sites: Sequence[Site]) -> Wanted:
    """What ``--only`` asks for: several of a kind add up, the kinds narrow each other.

    A method is named by its label or by its name, a world by its name or by its task, a seed by
    its number.

    Raises:
        SettingsError: there is no such world, method or seed.
    """
    worlds = {name for site in sites for name in (site.name, site.task) if name is not None}
    methods = {name for m in file.methods for name in (m.label, m.name)} | {BASE}
    seeds = {str(seed) for seed in (*file.study.seeds_development, *file.study.seeds_report)}
    for name in only:
        if name not in worlds | methods | seeds:
            raise SettingsError(
                f"--only {name}: there is no such world, method or seed; there are "
                f"{', '.join(sorted(worlds))}; {', '.join(sorted(methods))}; "
                f"{', '.join(sorted(seeds))}"
            )
    return Wanted(
        worlds=frozenset(only) & worlds,
        methods=frozenset(only) & methods,
        seeds=frozenset(int(name) for name in set(only) & seeds),
    )
