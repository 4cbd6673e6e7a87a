"""A verifier that several threads may call."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from dph.records import Problem, Verdict
from dph.tasks.verifiers.base import Verifier, verifier_identity


class OneAtATime:
    """Hands calls to a verifier one after another, whoever makes them.

    ``Verifier.grade`` is called from one thread at a time; so answers that are graded in several
    threads at once go through this.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.name, self.version = verifier.name, verifier.version
        self._verifier, self._lock = verifier, Lock()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the verifier."""
        settings: Mapping[str, Any] = verifier_identity(self._verifier)["settings"]
        return settings

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem lacks what the verifier needs.
            VerifierError: the verifier itself broke.
        """
        with self._lock:
            return self._verifier.grade(problems, responses)

    def close(self) -> None:
        """Stop the verifier's worker processes."""
        self._verifier.close()
