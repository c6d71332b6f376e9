"""Refuses passwords in URLs on a command line, which every user of the machine can read."""

import re
from collections.abc import Callable

import typer

_PASSWORD = re.compile(r"://[^@/?]*:[^@]*@|[?&;](ssl)?password=", re.IGNORECASE)


def without_password(instead: str) -> Callable[[str], str]:
    """Return what refuses a URL that holds a password, without repeating it.

    Args:
        instead: Where the password belongs, as in `Set WSC_DATABASE to it`.
    """

    def checked(url: str) -> str:
        if _PASSWORD.search(url):
            raise typer.BadParameter(
                "The URL holds a password, which every user of this machine can read in the list "
                f"of processes. {instead}."
            )
        return url

    return checked


no_database_password = without_password(
    "Set WSC_DATABASE to it instead, or leave the password to PGPASSFILE"
)
no_otlp_password = without_password("Set OTEL_EXPORTER_OTLP_ENDPOINT to it instead")
