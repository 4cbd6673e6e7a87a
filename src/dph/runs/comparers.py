"""Choose how unlabelled answers are compared: by the verifier, or by a user-defined function."""

from collections.abc import Iterator
from contextlib import contextmanager

from dph.errors import SettingsError
from dph.runs.plan import RunPlan
from dph.tasks.agreement import Comparer, KeyComparer, VerifierComparer, compares
from dph.tasks.environments import EnvironmentVerifier


@contextmanager
def comparer(plan: RunPlan, agreement: str | None, *, key: str, instead: str) -> Iterator[Comparer]:
    """Comparer of answers; its workers are stopped afterwards.

    Args:
        plan: of the run.
        agreement: the user's own function, or None for the verifier of ``data.verifier``.
        key: of the section that asks for it (``stores.broad``), for messages.
        instead: what else can be done about a verifier that cannot compare answers.

    Raises:
        SettingsError: the verifier cannot compare answers, or the function cannot be used.
    """
    data = plan.recipe.data
    if isinstance(plan.verifier, EnvironmentVerifier):
        raise SettingsError(
            f"{key}: answers in the [environment] {plan.recipe.environment.path!r} cannot be "
            f"compared yet: {instead}"
        )
    if agreement is not None:
        with KeyComparer(
            agreement,
            workers=data.verifier_workers,
            timeout=data.verifier_timeout,
            directories=data.modules,
        ) as own:
            yield own
        return
    if not compares(plan.verifier):
        raise SettingsError(
            f"{key}: the verifier {plan.verifier.name!r} says what is right, but cannot compare "
            f"two answers: name a function that can in {key}.agreement ('module:callable', "
            f"f(response, problem) -> key or None), or {instead}"
        )
    yield VerifierComparer(plan.verifier)
