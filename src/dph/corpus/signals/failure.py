"""What a file can do to a signal: it has no value, and those after it in its group have none."""


class SignalError(Exception):
    """A parser or lexer gave up on a file. Says why; no fault of the stage."""
