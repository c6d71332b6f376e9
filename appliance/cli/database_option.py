"""The URL of a database on a command line, which everybody on the machine can read."""

import re

import typer

_PASSWORD = re.compile(r"://[^@/?]*:[^@]*@|[?&;](ssl)?password=", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return the URL that an option has; refuse one that holds a password, without repeating it."""
    if _PASSWORD.search(url):
        raise typer.BadParameter(
            "The URL holds a password, which every user of this machine can read in the list of "
            "processes. Set WSC_DATABASE to it instead, or leave the password to PGPASSFILE."
        )
    return url
