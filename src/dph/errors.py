"""Every error the package raises on purpose.

* DphError
  * SettingsError   - a setting is unknown, of the wrong type or out of range
  * DataError       - a file or a record is missing or malformed
  * PoolError       - a pool is damaged or was made for something else
  * ModelError      - a model or a tokenizer cannot be used as asked
  * CheckpointError - a checkpoint is damaged or belongs to another run
  * VerifierError   - the verifier itself broke (not: the answer was wrong)
  * TrainingError   - training cannot go on (a non-finite loss, no group with signal)
  * StageError      - a stage of a corpus broke (not: a document was dropped)

The first five are bad input: the command line answers them with exit code 2.
The last three are failures of a run: exit code 1.
"""


class DphError(Exception):
    """Base class: ``except DphError`` catches all of the package's own errors."""


class SettingsError(DphError, ValueError):
    """A setting is unknown, of the wrong type or out of range."""


class DataError(DphError, ValueError):
    """A file or a record is missing or malformed."""


class PoolError(DphError, ValueError):
    """A pool is damaged or was made for another model, tokenizer or data set."""


class ModelError(DphError, ValueError):
    """A model or a tokenizer cannot be used as asked."""


class CheckpointError(DphError, ValueError):
    """A checkpoint is damaged or belongs to another run."""


class VerifierError(DphError, RuntimeError):
    """The verifier itself broke; says nothing about the answer."""


class TrainingError(DphError, RuntimeError):
    """Training cannot continue."""


class StageError(DphError, RuntimeError):
    """A stage of a corpus broke; says nothing about a document."""


def is_bad_input(error: DphError) -> bool:
    """True if what was given is at fault, and not the run."""
    return not isinstance(error, TrainingError | VerifierError | StageError)
