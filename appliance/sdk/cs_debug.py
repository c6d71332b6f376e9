"""`cs_debug`: run a program of the host, and stop the simulated fabric where one wants."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from appliance.core.errors import UserError

_ABOUT = "Run a host program as cs_python does, and stop the simulated fabric for commands."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise UserError(message[:1].upper() + message[1:] + ".", hint="See cs_debug --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; 2 for a wrong command."""
    try:
        wanted = _parser().parse_args(sys.argv[1:] if argv is None else argv)
        if wanted.batch and wanted.commands is None:
            raise UserError("--batch does the commands of a file: give it with -x FILE.")
        return _open_core(wanted) if wanted.core else _run(wanted)
    except UserError as error:
        sys.stderr.write(f"cs_debug: error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cs_debug", description=_ABOUT)
    add = parser.add_argument
    add("--batch", action="store_true", help="do the commands of -x, then run on without stops")
    add("-x", dest="commands", metavar="FILE", help="a file of commands, one a line")
    add("--core", metavar="FILE", help="look at a core file; PROGRAM is what cslc wrote")
    add("program", metavar="PROGRAM", help="the host program, with its arguments behind")
    add("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _run(wanted: argparse.Namespace) -> int:
    # Imported here, so that --help and a wrong command line answer at once.
    from appliance.sdk import cs_python  # noqa: PLC0415
    from appliance.sdk.host.debugger.session import DEBUG_VARIABLE, reader  # noqa: PLC0415

    path = "" if wanted.commands is None else str(Path(wanted.commands).resolve())
    reader(path)
    os.environ[DEBUG_VARIABLE] = path
    sys.argv[1:] = [wanted.program, *wanted.arguments]
    return cs_python.main()


def _open_core(wanted: argparse.Namespace) -> int:
    from appliance.sdk.host.debugger.debug_commands import Debugger  # noqa: PLC0415 - as in `_run`
    from appliance.sdk.host.debugger.session import print_line, reader  # noqa: PLC0415 - as in `_run`
    from appliance.sdk.host.debugger.targets import core_target  # noqa: PLC0415 - as in `_run`

    target, cycle = core_target(Path(wanted.core), Path(wanted.program))
    print_line(f"{wanted.core}: memory at cycle {cycle:,}")
    debugger = Debugger(target, None)
    read: Callable[[], str | None] = reader(wanted.commands or "")
    while (line := read()) is not None:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            lines, motion = debugger.execute(line)
        except UserError as error:
            print_line(f"error: {error}")
            continue
        if motion is not None and motion.kind == "quit":
            break
        for each in lines if motion is None else ["error: a core file does not run"]:
            print_line(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
