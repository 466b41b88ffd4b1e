"""The one exception of the bootstrap."""


class BootstrapError(ImportError):
    """kafkarec cannot be made importable here; the message says what was tried and what to do.

    An ImportError, so that code which treats kafkarec as optional keeps working.
    """
