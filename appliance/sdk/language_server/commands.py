"""The program of a file, found by the command that compiles it.

Whoever has a command for `cslc` in a script beside the program, as public programs do
(`commands.sh`), needs no setting. A script's own variables and defaults are put in; a command
with others counts for nothing.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import UserError
from appliance.csl.options import CompileOptions
from appliance.sdk.arguments import parse

_CALL = re.compile(r"(?:^|[\s;&|(/])(?:cslc|sdk_debug_shell\s+compile)\s+(?P<rest>.*)$")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=(.*)$")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_END = frozenset((";", "&&", "||", "|", "&", ">", ">>", "2>", "2>&1", ")"))
_MOST_SCRIPT_BYTES = 1 << 20
_MOST_SCRIPTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A program.

    Attributes:
        main: The file with the layout, its whole path.
        options: How it is compiled.
    """

    main: str
    options: CompileOptions


def configured(commands: Sequence[str], root: Path) -> list[Project]:
    """Return the programs of a setting: commands as one types them in the root.

    Raises:
        UserError: One is no command for `cslc`.
    """
    found: list[Project] = []
    for command in commands:
        words = shlex.split(command)
        words = words[1:] if words[:1] == ["cslc"] else words
        found.append(_project(words, root))
    return found


def nearby(file: Path, root: Path) -> list[Project]:
    """Return the programs of scripts beside a file and above it, the nearest first.

    Args:
        root: The directory above which nothing is looked for.
    """
    found: dict[tuple[str, CompileOptions], Project] = {}
    for directory in file.parents:
        for script in sorted(directory.glob("*.sh"))[:_MOST_SCRIPTS]:
            for project in _of_script(script):
                found.setdefault((project.main, project.options), project)
        if directory == root or root not in directory.parents:
            break
    return list(found.values())


def _of_script(script: Path) -> Iterator[Project]:
    try:
        text = script.read_bytes()[:_MOST_SCRIPT_BYTES].decode("utf-8", "replace")
    except OSError:
        return
    values: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        assigned = _ASSIGNMENT.match(line)
        call = _CALL.search(line)
        if assigned and not call:
            values[assigned[1]] = assigned[2].strip().strip("\"'")
        elif call and not line.lstrip().startswith("#"):
            try:
                yield _project(_words(call["rest"], values), script.parent)
            except (UserError, ValueError):
                continue


def _words(rest: str, values: dict[str, str]) -> list[str]:
    """Return the words of a command up to its end, with variables put in.

    Raises:
        ValueError: A quotation mark has no other.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        known = values.get(name, default)
        return found[0] if known is None or "$" in known else known

    words: list[str] = []
    for word in shlex.split(_VARIABLE.sub(value, rest), comments=True):
        if word in _END:
            break
        words.append(word.rstrip(";)"))
        if words[-1] != word:
            break
    return words


def _project(words: Sequence[str], directory: Path) -> Project:
    arguments = parse(words)
    main = arguments.main
    if "$" in str(main):  # the script's own directory, as a rule
        main = Path(main.name)
    return Project(main=str((directory / main).resolve()), options=arguments.options)
