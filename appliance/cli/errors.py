"""Ends a command of `appliance` with one line for an error, and an exit code by its kind."""

import contextlib
import logging
from collections.abc import Iterator
from typing import NoReturn

import typer

from appliance.core.errors import InternalError, WscError
from appliance.core.visible_text import visible_lines

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """End the command with one line for an error that has a sentence; decorates commands, too."""
    try:
        yield
    except WscError as error:
        _fail(error)


def _fail(error: WscError) -> NoReturn:
    typer.echo(f"Error: {visible_lines(str(error))}", err=True)
    if isinstance(error, InternalError):
        logger.error("Internal error", exc_info=error)
    raise typer.Exit(error.exit_code) from error
