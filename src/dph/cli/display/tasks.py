"""Output of ``dph tasks``: numbers of problems, those left out, and the reasons."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dph.cli.display.output import json_text
from dph.errors import DataError
from dph.records import Problem
from dph.tasks.code import CodeProblems
from dph.tasks.math import MathProblems, MathSet
from dph.tasks.sql.data_sets import SQLSplit
from dph.tasks.sql.problems import SQLProblems

_EXAMPLES = 3


def say_sql(made: SQLProblems, source: SQLSplit, out: Path, *, checked: bool, as_json: bool) -> str:
    """The report on Spider or BIRD."""
    if as_json:
        return json_text(
            {
                "schema": 1,
                "out": str(out),
                "databases": None if source.databases is None else str(source.databases),
                "questions": len(source.questions),
                "problems": len(made.problems),
                "checked": checked,
                "dropped": made.counts(),
                "dropped_problems": [
                    {
                        "problem_id": each.problem_id,
                        "db_id": each.db_id,
                        "why": each.state.value,
                        "reason": each.reason,
                    }
                    for each in made.dropped
                ],
            }
        )
    lines = [f"{out}: {len(made.problems)} problems of {len(source.questions)} questions"]
    if source.databases is None:
        lines.append(
            "  databases are missing: no gold query was run, and nothing can be graded yet"
        )
    elif not checked:
        lines.append("  no gold query was run (--keep-all)")
    for why, count in made.counts().items():
        examples = [d.problem_id for d in made.dropped if d.state.value == why][:_EXAMPLES]
        more = ", ..." if count > len(examples) else ""
        lines.append(f"  dropped {count}: gold {why} ({', '.join(examples)}{more})")
    if source.databases is not None:
        lines.append(f'  in a recipe: data.verifier = "sql", data.databases = "{source.databases}"')
    return "\n".join(lines)


def say_math(loaded: MathProblems, known: MathSet | None, out: Path, *, as_json: bool) -> str:
    """The report on math."""
    why = Counter(reason for _, reason in loaded.dropped)
    samples = known.samples if known else None
    ks = list(known.ks) if known else []
    if as_json:
        return json_text(
            {
                "schema": 1,
                "out": str(out),
                "problems": len(loaded.problems),
                "dropped": dict(why),
                "samples": samples,
                "k": ks,
            }
        )
    total = len(loaded.problems) + len(loaded.dropped)
    lines = [f"{out}: {len(loaded.problems)} problems of {total} rows"]
    for reason, count in why.items():
        example = next(place for place, each in loaded.dropped if each == reason)
        lines.append(f"  dropped {count}: {reason} (for example {example})")
    if samples is not None:
        lines.append(f"  in a recipe: evaluate.samples = {samples}, evaluate.k = {ks}")
    return "\n".join(lines)


def require_some(loaded: CodeProblems | MathProblems, data: Path) -> None:
    """Refuse a file that gives no problem, before anything is written."""
    if not loaded.problems:
        why = f": {loaded.dropped[0][1]}" if loaded.dropped else ""
        raise DataError(f"{data} gives no problems{why}")


def say_code(
    loaded: CodeProblems, out: Path, *, solutions: int, checked: bool, as_json: bool
) -> str:
    """The report on programming problems; ``solutions`` is the number with their own solution."""
    total = len(loaded.problems) + len(loaded.dropped)
    if as_json:
        return json_text(
            {
                "schema": 1,
                "out": str(out),
                "problems": len(loaded.problems),
                "solutions": solutions,
                "checked": checked,
                "dropped_problems": [
                    {"problem_id": problem_id, "reason": why} for problem_id, why in loaded.dropped
                ],
            }
        )
    lines = [f"{out}: {len(loaded.problems)} problems of {total} rows"]
    if not solutions:
        lines.append("  they have no solutions: no test was run")
    elif not checked:
        lines.append("  no solution was run (--keep-all)")
    for problem_id, why in loaded.dropped[:_EXAMPLES]:
        lines.append(f"  dropped {problem_id}: {why}")
    if len(loaded.dropped) > _EXAMPLES:
        lines.append(f"  dropped {len(loaded.dropped) - _EXAMPLES} more (--json names them)")
    lines.append('  in a recipe: data.verifier = "code"')
    return "\n".join(lines)


def say_gym(problems: Sequence[Problem], name: str, out: Path, *, count: int, as_json: bool) -> str:
    """The report on a task of reasoning-gym."""
    if as_json:
        document = {"schema": 1, "out": str(out), "task": name, "problems": len(problems)}
        return json_text(document)
    lines = [f"{out}: {len(problems)} problems of {name}"]
    if len(problems) < count:
        lines.append(f"  {count - len(problems)} fewer than requested: its questions repeat")
    lines.append('  in a recipe: data.verifier = "reasoning_gym"')
    return "\n".join(lines)
