"""What the Hub, or the way to it, refuses: one line each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from dph.errors import DphError

_TRANSPORT = cast(type[Exception], HfHubHTTPError.__mro__[1])
"""HTTPError of httpx or of httpx2, whichever huggingface_hub is built on."""
_LOG_IN = "log in (`hf auth login`, or set HF_TOKEN)"


@contextmanager
def said_plainly(what: str, kind: type[DphError]) -> Iterator[None]:
    """Raise what huggingface_hub raises as ``kind``, with a line about ``what`` was asked for.

    A full disk and the like stay what they are.
    """
    end = constants.ENDPOINT
    try:
        yield
    except GatedRepoError as error:
        raise kind(
            f"{what}: access is gated: ask for it on its page at {end}, then {_LOG_IN}"
        ) from error
    except RepositoryNotFoundError as error:
        raise kind(
            f"{what}: {end} has no such repository, or it is private: check the name, or {_LOG_IN}"
        ) from error
    except RevisionNotFoundError as error:
        raise kind(f"{what}: the repository has no such revision (branch, tag, commit)") from error
    except RemoteEntryNotFoundError as error:
        raise kind(f"{what}: the repository has no such file") from error
    except LocalEntryNotFoundError as error:
        raise kind(f"{what}: {_unreachable(error)}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = f": {_LOG_IN}" if status in (401, 403) else ""
        raise kind(f"{what}: {end} answered {status}: {_line(error)}{hint}") from error
    except HFValidationError as error:
        raise kind(f"{what}: {_line(error)}") from error
    except (OfflineModeIsEnabled, _TRANSPORT) as error:
        raise kind(f"{what}: {end} cannot be reached: {_line(error)}") from error


def _unreachable(error: Exception) -> str:
    place = f"it is not in the cache {constants.HF_HUB_CACHE}, or not all of it"
    if constants.HF_HUB_OFFLINE:
        return f"{place}, and HF_HUB_OFFLINE is set: run once without it"
    if error.__cause__ is None:
        return place
    return f"{place}, and {constants.ENDPOINT} cannot be reached: {_line(error.__cause__)}"


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
