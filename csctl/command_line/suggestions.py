"""What a user meant who typed a command that does not exist."""

import difflib

import click

_JOB_PREFIX = "wsjob-"
_OF_JOBS = ("job", "jobs")

_ALIKE = 0.75
"""How like each other two options are of which one may be a slip of the other, out of 1."""

_OF_OTHERS = {
    "-j": "--name NAME",
    "-t": "--time-limit TIME",
    "--after-any": "--after afterany:NAME",
    "--after-not-ok": "--after afternotok:NAME",
    "--after-ok": "--after afterok:NAME",
    "--afterany": "--after afterany:NAME",
    "--afternotok": "--after afternotok:NAME",
    "--afterok": "--after afterok:NAME",
    "--export": "--env NAME",
    "--job-name": "--name NAME",
    "--job-time-sec": "--time-limit TIME",
    "--max-jobs": "--limit N",
    "--num-csx": "--systems N",
    "--requeue": "--restart-policy on=node,limit=N",
    "--time": "--time-limit TIME",
    "--wait": "--attach",
}
"""Options of Slurm's and of the client's own programs, and what is written for them here."""


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


def meant_option(command: click.Context, word: str) -> str:
    """Return how the option that was meant is written; empty if nothing is close to it.

    Args:
        command: Whose option was looked for.
        word: What was typed in its place.
    """
    known = [name for each in command.command.get_params(command) for name in each.opts]
    long_names = [name for name in known if name.startswith("--")]
    typed = word.lower().replace("_", "-")
    written = _OF_OTHERS.get(typed, "")
    if written.partition(" ")[0] in long_names:
        return written
    longer = [name for name in long_names if typed.startswith("--") and name.startswith(typed)]
    close = difflib.get_close_matches(typed, long_names, n=1, cutoff=_ALIKE)
    return next(iter([*longer, *close]), "")
