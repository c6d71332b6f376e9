"""Errors as programs on the host expect them."""

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.core.errors import WscError
from appliance.sdk.symbols import HostCallError


@contextmanager
def told_to_host() -> Iterator[None]:
    """Translate errors to the types that programs of the SDK expect."""
    try:
        yield
    except (WscError, ValueError) as error:
        raise HostCallError(str(error)) from error
