"""The files of a real world: questions of three kinds, drawn from one seed, none of them twice."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from dph._base.randomness import derived_seed
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.gym import GymMaker
from lab.worlds.real.kind import SETS, RealSizes
from lab.worlds.real.tasks import TASKS, GymKind, Kind
from lab.worlds.world import UNLABELLED, PlacedWorld, without_constants

SCHEMA = 1
PARTS = ("across", "neither")
"""Of the unlabelled prompts: of the kind that is tested across, and of the third kind."""


def build_world(
    directory: Path, *, seed: int, task: str, sizes: RealSizes | None = None
) -> PlacedWorld:
    """Write the world of a task into ``directory``; keep it if it is already there and whole.

    Leaves a ``.jsonl`` file a set and ``world.json`` (task, seed, sizes, near-duplicates of test
    questions, hashes), which is written last. The same seed and sizes give the same bytes.

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
        SettingsError: reasoning-gym is missing, or a task has fewer different questions.
    """
    sizes = sizes or RealSizes()
    world = PlacedWorld(directory, seed)
    made_from = {
        "task": "real",
        "questions": task,
        "schema": SCHEMA,
        "seed": seed,
        "sizes": asdict(sizes),
    }
    world.build(
        made_from,
        lambda: _draw_sets(task, seed, sizes),
        lambda problems: {"near_duplicates": near_duplicates(problems)},
    )
    return world


def near_duplicates(problems: Mapping[str, Sequence[Problem]]) -> dict[str, int]:
    """Number of prompts that equal a test question but for constants: of train and each part."""
    tests = {without_constants(str(p.prompt)) for name in SETS for p in problems[name]}
    found = Counter({"train": 0, **dict.fromkeys(PARTS, 0)})
    for problem in (*problems["train"], *problems[UNLABELLED]):
        found[problem.answer.get("part", "train")] += (
            without_constants(str(problem.prompt)) in tests
        )
    return dict(found)


def _draw_sets(task: str, seed: int, sizes: RealSizes) -> dict[str, list[Problem]]:
    """Every set; those of one kind are parts of one draw, so that no question is in two."""
    chosen, many = TASKS[task], asdict(sizes)
    wanted = {
        "trained": (chosen.trained, {name: many[name] for name in ("shots", "in_domain", "train")}),
        "across": (
            chosen.across,
            {"cross_domain": many["cross_domain"], PARTS[0]: many[UNLABELLED]},
        ),
        "neither": (chosen.neither, {PARTS[1]: many[UNLABELLED]}),
    }
    found: dict[str, list[Problem]] = {}
    taken: set[str] = set()
    with ExitStack() as stack:
        maker = _Maker(task, seed, stack, taken)
        for name, (kind, counts) in wanted.items():
            drawn = iter(maker.questions(name, kind, sum(counts.values())))
            for of_set, count in counts.items():
                found[of_set] = [
                    Problem(problem_id=f"{of_set}-{i:04d}", prompt=p.prompt, answer=p.answer)
                    for i, p in zip(range(count), drawn, strict=False)
                ]
    unlabelled = [
        Problem(problem_id=f"{UNLABELLED}-{p.problem_id}", prompt=p.prompt, answer={"part": part})
        for part in PARTS
        for p in found.pop(part)
    ]
    return {**found, UNLABELLED: unlabelled}


class _Maker:
    """Draws questions, or asks reasoning-gym for them; none that was ``taken``."""

    def __init__(self, task: str, seed: int, stack: ExitStack, taken: set[str]) -> None:
        self._task, self._seed, self._stack, self._taken = task, seed, stack, taken
        self._gym: GymMaker | None = None

    def questions(self, name: str, kind: Kind, count: int) -> list[Problem]:
        """``count`` different questions of a kind, each from the kind's own random stream."""
        source = self._of_gym(name, kind, count) if isinstance(kind, GymKind) else None
        found: list[Problem] = []
        for problem in source if source is not None else self._drawn(name, kind, count):
            if problem.prompt in self._taken:
                continue
            self._taken.add(str(problem.prompt))
            found.append(problem)
            if len(found) == count:
                return found
        raise SettingsError(
            f"the task {self._task!r} has {len(found)} different questions of the kind {name!r}, "
            f"{count} are needed: ask for fewer problems"
        )

    def _drawn(self, name: str, kind: Any, count: int) -> Iterator[Problem]:
        rng = Random(f"real world {self._task} {self._seed}: {name}")
        for _ in range(20 * count + 1000):
            question = kind(rng)
            answer = {"answer": question.answer, "shown": question.shown}
            yield Problem(problem_id="", prompt=question.prompt, answer=answer)

    def _of_gym(self, name: str, kind: GymKind, count: int) -> list[Problem]:
        if self._gym is None:
            self._gym = self._stack.enter_context(GymMaker())
        seed = derived_seed(self._seed, "real world", self._task, name) % 2**31
        found = self._gym.problems(kind.task, count=count, seed=seed, config=kind.config)
        return [
            Problem(
                problem_id="",
                prompt=" ".join(str(p.prompt).split()),
                answer={**p.answer, "shown": str(p.answer["answer"])},
            )
            for p in found
        ]
