"""Grading answers that are at hand, in a notebook say: sequences in, one verdict each out."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from numbers import Real
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.records import Problem, Verdict
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier


def grade_sql(
    predictions: Sequence[str],
    golds: Sequence[str],
    databases: Sequence[str | Path] | str | Path,
    *,
    rule: str = "bird",
    workers: int = 1,
    timeout: float = 5.0,
) -> list[Verdict]:
    """Run predicted SQL and the gold's, and say for each pair whether the results are equal.

    Every statement runs in a worker process that can only read, and is killed when it hangs. A
    bad prediction is a verdict (INVALID, TIMED_OUT ...), and so is a gold that does not run
    (BAD_GOLD).

        verdicts = grade_sql(["SELECT 1"], ["SELECT 1.0"], "pets.sqlite", rule="strict")

    Args:
        predictions: SQL statements, which are run as they are.
        golds: the gold statement of each.
        databases: the database of each, or one for all: an SQLite file, or a directory
            ``<name>`` that holds ``<name>.sqlite``.
        rule: when two results are equal: spider, bird, bird_soft_f1, strict or cartesian
            (docs/guides/grading.md).
        workers: worker processes.
        timeout: seconds for one statement.

    Returns:
        One verdict for each prediction, in order; a row of several statements costs no other row.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, hold something other than texts, or a database is not there.
        SettingsError: the rule is unknown, or a number is out of range.
        VerifierError: a worker failed; not: a statement did.
    """
    _require_texts(predictions=predictions, golds=golds)
    if isinstance(databases, str | Path):
        files = [_database(databases)] * len(golds)
    else:
        known = {each: _database(each) for each in databases}
        files = [known[each] for each in databases]
    _require_same_length(predictions=predictions, golds=golds, databases=files)
    pairs = [
        SQLPair(file, gold, predicted, whole=True)
        for file, gold, predicted in zip(files, golds, predictions, strict=True)
    ]
    with SQLVerifier(rule=rule, workers=workers, timeout=timeout) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


def grade_math(
    responses: Sequence[str],
    golds: Sequence[str | int | float],
    *,
    verifier: str = "math",
    workers: int = 1,
    timeout: float = 5.0,
) -> list[Verdict]:
    r"""Find the answer in each response and compare it with its gold.

    ``math`` and ``math_qwen`` need ``dph-rl[math]``; every answer is read in a worker process,
    which is killed when it hangs. A gold that cannot be read is the verdict BAD_GOLD.

        verdicts = grade_math([r"so it is \boxed{\frac{1}{2}}"], ["0.5"])

    Args:
        responses: texts in which the answer is found.
        golds: the gold answer of each, a text (LaTeX or plain) or a number.
        verifier: math (strict), math_qwen (as Qwen2.5-Math's tool), number, exact, or a function
            of yours as ``module:function``.
        workers: worker processes, where the verifier has any.
        timeout: seconds for one answer, likewise.

    Returns:
        One verdict for each response, in order.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, or a response is not a text.
        SettingsError: there is no such verifier, a package is missing, or a number is out of
            range.
        VerifierError: a worker failed; not: an answer did.
    """
    texts = golds if isinstance(golds, str) else [_gold_text(gold) for gold in golds]
    _require_texts(responses=responses, golds=texts)
    _require_same_length(responses=responses, golds=texts)
    problems = [
        Problem(problem_id=str(index), prompt="", answer={"answer": gold})
        for index, gold in enumerate(texts)
    ]
    with closing(make_verifier(verifier, workers=workers, timeout=timeout)) as made:
        return made.grade(problems, responses)


def grade_code(
    programs: Sequence[str],
    tasks: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    workers: int = 1,
    timeout: float = 5.0,
    memory_mb: int = 1000,
) -> list[Verdict]:
    """Run Python programs against tests, each in a confined process (docs/guides/grading.md).

        verdicts = grade_code(["def add(a, b): return a + b"], {"tests": "assert add(1, 2) == 3"})

    Args:
        programs: texts, which are run as they are.
        tasks: the tests of each, or one for all: a mapping with ``tests`` or ``cases``, and with
            ``entry_point``, ``setup`` and ``prefix`` if need be.
        workers: worker processes.
        timeout: seconds for one test; ten times that for all tests of a program.
        memory_mb: address space of a program, in units of 10^6 bytes.

    Returns:
        One verdict for each program, in order.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, or tests are missing or malformed.
        SettingsError: a number is out of range, or programs cannot be run here.
        VerifierError: a worker failed; not: a program did.
    """
    each = [tasks] * len(programs) if isinstance(tasks, Mapping) else tasks
    _require_texts(programs=programs)
    _require_same_length(programs=programs, tasks=each)
    pairs = [
        CodePair(parse_task(task, f"tasks[{index}]"), program)
        for index, (task, program) in enumerate(zip(each, programs, strict=True))
    ]
    with CodeVerifier(workers=workers, timeout=timeout, memory_mb=memory_mb) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


def _gold_text(gold: Any) -> Any:
    """A number, numpy's included, as text; what is not a text is refused by its place."""
    return str(gold) if isinstance(gold, Real) and not isinstance(gold, bool) else gold


def _require_texts(**arguments: Sequence[str]) -> None:
    for name, values in arguments.items():
        if isinstance(values, str | bytes):
            raise DataError(
                f"{name} is a sequence of texts, got one text, {values!r:.80}; write [text] for one"
            )
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise DataError(
                    f"{name}[{index}] must be text, got {value!r:.80} ({type(value).__name__})"
                )


def _require_same_length(**arguments: Sequence[object]) -> None:
    lengths = {name: len(values) for name, values in arguments.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise DataError(f"need one of each for every answer, got {counts}")


def _database(place: str | Path) -> str:
    path = Path(place)
    file = path / f"{path.name}.sqlite" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"there is no database {file}")
    return str(file.absolute())
