"""The reference of csctl, docs/csctl.md: what is above a mark is written by hand, the rest here."""

from collections.abc import Iterator

import click

from csctl.command_line.flags import SETTINGS

MARK = "<!-- Below this line everything is generated from the commands themselves. -->"


def reference(app: click.Group) -> str:
    """Return the generated part: every command that the help lists, with all its options."""
    return "\n".join(line for words, command in commands(app) for line in _section(words, command))


def commands(
    group: click.Group, words: tuple[str, ...] = ("csctl",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that does something, with the words that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def _section(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    # click keeps the help option of the first context that asks for it.
    context = click.Context(command, info_name=" ".join(words), **SETTINGS)
    yield f"## {' '.join(words)}"
    yield ""
    yield "```"
    yield " ".join([*words, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    yield from (command.help or "").strip().replace("\n    ", "\n").split("\n")
    yield ""
    rows = [row for each in command.params if (row := _row(each, context))]
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")
    if command.epilog:
        yield f"`{command.epilog.removeprefix('Example: ')}`"
        yield ""


def _row(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Argument):
        name, text = parameter.make_metavar(context), str(vars(parameter).get("explanation", ""))
    else:
        record = parameter.get_help_record(context)
        if record is None or parameter.name in _EVERYWHERE:
            return ""
        name, text = record
    cells = (" ".join(cell.replace("|", "\\|").split()) for cell in (f"`{name}`", text))
    return f"| {' | '.join(cells)} |"


_EVERYWHERE = ("csconfig", "namespace", "debug", "help")
