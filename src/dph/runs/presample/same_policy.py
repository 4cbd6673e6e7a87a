"""Whether stored log-probs are those of a policy: what a store of another run has to share."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dph.runs.presample.manifest import Manifest, policy_fields
from dph.runs.presample.pool import require_fit


def require_same_policy(
    path: Path,
    manifest: Manifest,
    *,
    tokenizer_fingerprint: str,
    temperature: float,
    dtype: str,
    model_fingerprint: str | None = None,
    also: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Refuse a pool whose log-probs another policy, temperature or precision gave.

    Its problems, their grading and its rule are its own affair. ``model_fingerprint`` is None where
    the weights have moved on, or have other names than the model that was sampled. ``also`` are
    further fields of the source that have to be the same.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    wanted = policy_fields(
        tokenizer_fingerprint=tokenizer_fingerprint,
        temperature=temperature,
        dtype=dtype,
        model_fingerprint=model_fingerprint,
    )
    source = manifest.source.model_copy(update={**wanted, **also})
    require_fit(path, manifest, source, manifest.rule)
