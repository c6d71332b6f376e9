"""Runs a command line of csctl, and turns errors into one sentence and an exit code.

Exit codes: 0 done, 2 the request is at fault, 3 the cluster is (a retry may help), 4 a defect of
ours.
"""

import os
import sys
import traceback
from collections.abc import Sequence

import click

from appliance.core.clock import Clock, SystemClock
from appliance.core.errors import InternalError, UserError, WscError
from appliance.core.visible_text import visible_lines
from csctl.command_line.app import app
from csctl.command_line.invocation import Invocation
from csctl.command_line.suggestions import meant_command, meant_option

_INTERRUPTED = 130
_BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE ended


def main(argv: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: Arguments after the program's name; None takes the process's.
        clock: For ages; None takes the machine's.
    """
    # gRPC's own log would come before our sentence and says the same in its code's words.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    invocation = Invocation(environ=os.environ, clock=clock or SystemClock(), stdout=sys.stdout)
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app.main(args, prog_name="csctl", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except WscError as error:
        return _report(error, invocation)
    except click.ClickException as error:
        return _report(_usage_error(error), invocation)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; keep the interpreter's own last flush from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the outermost frame of the process
        defect = InternalError(f"csctl failed: {error!r}.", hint="Run it again with --debug 1.")
        return _report(defect, invocation)
    return int(code or 0)


def _usage_error(error: click.ClickException) -> UserError:
    """Return our error for a command line that does not parse."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "csctl"
    message = error.format_message().strip()
    hint = f"See `{path} --help`."
    if context is not None and isinstance(error, click.exceptions.NoSuchCommand):
        message = f"No such command '{error.command_name}'"
        if meant := meant_command(context, error.command_name):
            hint = f"Did you mean `{meant}`?"
    if context is not None and isinstance(error, click.exceptions.NoSuchOption):
        message = f"No such option '{error.option_name}'"
        if meant := meant_option(context, error.option_name):
            hint = f"Did you mean `{context.command_path} {meant}`?"
    return UserError(message if message.endswith((".", "?")) else f"{message}.", hint=hint)


def _report(error: WscError, invocation: Invocation) -> int:
    """Print the error as one sentence with the next step; return the exit code."""
    if sys.stderr is None:  # the shell has closed it
        return error.exit_code
    if invocation.flags.debug:
        traceback.print_exc(file=sys.stderr)
    sys.stderr.write(f"Error: {visible_lines(str(error))}\n")
    return error.exit_code
