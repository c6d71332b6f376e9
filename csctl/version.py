"""The version of csctl: the distribution's."""

from importlib.metadata import PackageNotFoundError, version

_DISTRIBUTION = "open-wafer-appliance"


def csctl_version() -> str:
    """Return the installed version; `0+source` when run from a tree that is not installed."""
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "0+source"
