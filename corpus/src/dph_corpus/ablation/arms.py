"""Arms of an ablation: the same raw text, cleaned in the ways that are compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from dph._base.randomness import generator
from dph.errors import DataError
from dph.runs.progress import ProgressDisplay
from dph_corpus import Corpus, Document, DocumentOutcome, Drop, run_stage
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.dedup.run import dedup
from dph_corpus.documents import position
from dph_corpus.rules.own import open_preset
from dph_corpus.rules.presets import LANGUAGES
from dph_corpus.rules.spec import filter_spec
from dph_corpus.running import Workers
from dph_corpus.settings import Nearness, preset
from dph_corpus.shard_work import write_shard
from dph_corpus.shards import shard_name
from dph_corpus.stage_run import finish_stage, made_once

VERSION = 1
"""Counts up when the same corpus and settings give other pools."""
EXACT, FILE, REPOSITORY, GENERAL, CODE = "exact", "file", "repository", "general", "code"
"""The steps of arms: copies of files, near-copies of files, near-copies of whole repositories,
rules for any text and code, and these with the rules for single languages."""


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """One arm against another.

    ``paper`` says what OpenCoder (arXiv:2411.04905) found of it; '' where it reports nothing.
    Everywhere the paper's finding, if any, is that ``arm`` is better.
    """

    arm: str
    against: str
    paper: str = ""


@dataclass(frozen=True, slots=True)
class ArmFamily:
    """Arms that are compared: the steps of each, the first arm is the reference.

    The learning rate of the arms ``annealed`` falls in the last fifth of the steps.
    """

    arms: Mapping[str, Sequence[str]]
    comparisons: Sequence[ArmComparison] = ()
    annealed: Set[str] = frozenset()

    @property
    def reference(self) -> str:
        """The arm that the others are subtracted from."""
        return next(iter(self.arms))


FAMILIES: Mapping[str, ArmFamily] = {
    "cleaning": ArmFamily(
        {"raw": (), "dedup": (FILE,), "filter": (CODE,), "both": (FILE, CODE)},
    ),
    "deduplication": ArmFamily(
        {
            "none": (),
            "exact": (EXACT,),
            "file": (FILE,),
            "repository": (REPOSITORY,),
            "repository, file": (REPOSITORY, FILE),
            "file, repository": (FILE, REPOSITORY),
        },
        (
            ArmComparison("file", "repository", "files are better than repositories (figure 8)"),
            ArmComparison("file", "none", "duplicates harm"),
            ArmComparison("exact", "none"),
            ArmComparison("repository", "none"),
            ArmComparison("file", "exact"),
        ),
    ),
    "filtering": ArmFamily(
        {"none": (FILE,), "general": (FILE, GENERAL), "code": (FILE, CODE)},
        (
            ArmComparison("general", "none"),
            ArmComparison("code", "none"),
            ArmComparison("code", "general"),
        ),
    ),
    "annealing": ArmFamily(
        {"constant": (FILE,), "annealed": (FILE,)},
        (ArmComparison("annealed", "constant"),),
        frozenset({"annealed"}),
    ),
}
"""``filtering`` begins with what deduplication leaves, in OpenCoder's order."""


def make_pools(
    source: Corpus,
    out: Path,
    settings: AblationSettings,
    progress: ProgressDisplay,
    *,
    workers: Workers,
) -> Mapping[str, Corpus]:
    """The corpora of the arms, in ``out``; what is finished is kept.

    Raises:
        DataError: no document is left of an arm.
        StageError: a stage failed.
    """
    arms = FAMILIES[settings.arms].arms
    made: dict[tuple[str, ...], Corpus] = {(): raw_pool(source, out / "raw", settings)}
    with progress.task("arms", len(arms), "arms") as advance:
        for arm, steps in arms.items():
            for count in range(1, len(steps) + 1):
                before, done = tuple(steps[: count - 1]), tuple(steps[:count])
                if done not in made:
                    place = out / "-".join(done)
                    made[done] = _STEPS[done[-1]](made[before], place, settings, workers)
            advance(1, arm)
    pools = {arm: made[tuple(steps)] for arm, steps in arms.items()}
    if empty := [arm for arm, pool in pools.items() if not pool.manifest.documents]:
        raise DataError(f"no document is left of {empty[0]} in {pools[empty[0]].directory}")
    return pools


def raw_pool(source: Corpus, out: Path, settings: AblationSettings) -> Corpus:
    """The documents that the arms begin with, planted copies among them.

    Raises:
        DataError: there is none of the language.
    """
    names = ("megabytes", "copies", "language", "seed")
    chosen = {name: getattr(settings, name) for name in names}

    def documents() -> Iterator[tuple[Document, DocumentOutcome]]:
        found = sorted(_with_copies(source, settings), key=_place)
        if not found:
            named = settings.language or "any language"
            raise DataError(f"{source.directory} has no document of {named}")
        return ((document, DocumentOutcome(document)) for document in found)

    return _written("pool", source, out, chosen, documents)


def _with_copies(source: Corpus, settings: AblationSettings) -> Iterator[Document]:
    """The first documents of the corpus, each with as many copies as a geometric law gives it.

    A share c of copies is the mean 1 / (1 - c) of files with the same text; the law is declared,
    the texts are as found. Copies follow their original, since nothing here depends on the order.
    """
    size = 0.0
    for document in source.documents():
        if settings.language and document.language != settings.language:
            continue
        size += document.bytes
        if size > settings.megabytes * 1e6:
            return
        yield document
        draw = generator(settings.seed, "copies", document.id)
        for number in range(1, int(draw.geometric(1 - settings.copies))):
            yield replace(document, id=f"copy {number} of {document.id}")


def _written(
    stage: str,
    source: Corpus,
    out: Path,
    settings: Mapping[str, object],
    outcomes: Callable[[], Iterator[tuple[Document, DocumentOutcome]]],
) -> Corpus:
    """A corpus of one shard, made once of the same input and settings."""
    step = {"stage": stage, "version": VERSION, "settings": dict(settings)}
    history = [*source.manifest.history, step | {"input": source.manifest.content}]

    def make() -> Corpus:
        name = shard_name(0, 1)
        summary = write_shard(outcomes(), stage, out, name)
        return finish_stage(out, stage, [name], [summary], history=history)

    return made_once([source], out, history=history, shards=1, make=make)


def _place(document: Document) -> tuple[int, str]:
    return position(document.id), document.id


# Deduplication of whole repositories, each as one text.


def unique_repositories(
    source: Corpus, out: Path, *, nearness: Nearness, workers: Workers = 1
) -> Corpus:
    """Documents of the repositories that are left when each repository is compared as one text.

    The text of a repository is that of its files in the order of their ids. A document without
    ``repo`` is of the repository ``source``.
    Limits: the text of one repository fits in memory, and the texts of all in one shard.

    Raises:
        StageError: a stage failed.
    """
    whole = _written("repositories", source, out / "whole", {}, lambda: _repositories(source))
    kept = {
        one.id for one in dedup(whole, out / "kept", nearness=nearness, workers=workers).documents()
    }

    def outcomes() -> Iterator[tuple[Document, DocumentOutcome]]:
        for document in source.documents():
            known = repository_of(document) in kept
            drops = () if known else (Drop(REPOSITORY),)
            yield document, DocumentOutcome(document if known else None, drops)

    return _written("repository", source, out / "files", {"nearness": nearness.json()}, outcomes)


def repository_of(document: Document) -> str:
    """The repository of a document: its ``repo``, else what it was read from."""
    return document.repo or document.source


def _repositories(source: Corpus) -> Iterator[tuple[Document, DocumentOutcome]]:
    texts: dict[str, list[tuple[str, str]]] = {}
    for document in source.documents():
        texts.setdefault(repository_of(document), []).append((document.id, document.text))
    wholes = (
        Document.of("\n".join(text for _, text in sorted(files)), id=name, path=name)
        for name, files in texts.items()
    )
    return ((whole, DocumentOutcome(whole)) for whole in sorted(wholes, key=_place))


# The steps by name.

_Step = Callable[[Corpus, Path, AblationSettings, Workers], Corpus]
_LANGUAGES = frozenset(LANGUAGES)


def _exact(source: Corpus, out: Path, _: AblationSettings, workers: Workers) -> Corpus:
    return dedup(source, out, nearness=preset("exact"), workers=workers)


def _file(source: Corpus, out: Path, settings: AblationSettings, workers: Workers) -> Corpus:
    return dedup(source, out, nearness=preset(settings.dedup), workers=workers)


def _repository(source: Corpus, out: Path, settings: AblationSettings, workers: Workers) -> Corpus:
    return unique_repositories(source, out, nearness=preset(settings.dedup), workers=workers)


def _general(source: Corpus, out: Path, settings: AblationSettings, workers: Workers) -> Corpus:
    rules = open_preset(settings.filter).rules.values()
    of_a_language = (r for r in rules if len(r.conditions) == 1 and set(r.conditions) <= _LANGUAGES)
    left_out = {rule.name: "" for rule in of_a_language}
    return run_stage(filter_spec(settings.filter, left_out), source, out, workers=workers)


def _code(source: Corpus, out: Path, settings: AblationSettings, workers: Workers) -> Corpus:
    return run_stage(filter_spec(settings.filter), source, out, workers=workers)


_STEPS: Mapping[str, _Step] = {
    EXACT: _exact,
    FILE: _file,
    REPOSITORY: _repository,
    GENERAL: _general,
    CODE: _code,
}
