"""The version of csctl: the distribution's, which a test compares.

Asking the installed distribution would cost every command the import of `importlib.metadata`.
"""

_VERSION = "0.1.0"


def csctl_version() -> str:
    """Return the version."""
    return _VERSION
