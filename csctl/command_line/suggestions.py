"""What a user meant who typed a command that does not exist."""

import difflib

import click

_JOB_PREFIX = "wsjob-"
_OF_JOBS = ("job", "jobs")


def meant_command(group: click.Context, word: str) -> str:
    """Return the command line that was meant; empty if nothing is close to it.

    Args:
        group: Where the command was looked for.
        word: What was typed in its place.
    """
    if not isinstance(group.command, click.Group):
        return ""
    names = group.command.list_commands(group)
    if word.rpartition("/")[2].startswith(_JOB_PREFIX):
        kind = next((each for each in _OF_JOBS if each in names), "")
        return f"{group.command_path} {kind} {word}" if kind else ""
    close = difflib.get_close_matches(word.lower(), names, n=1)
    return f"{group.command_path} {close[0]}" if close else ""
