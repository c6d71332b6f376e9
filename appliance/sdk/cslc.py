"""`cslc`: compile a CSL program into a directory that the runtime loads."""

import sys
from collections.abc import Sequence
from pathlib import Path

from appliance.core.errors import UserError
from appliance.sdk.arguments import Arguments, parse
from appliance.sdk.bounds import OutOfTimeError, bounded

_EXIT_ERRORS = 1


class FileSources:
    """Reads source files for the compiler.

    Attributes:
        texts: What has been read, by path.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if there is none.

        Raises:
            UserError: It cannot be read, or is not text.
        """
        try:
            text = self.texts[path] = Path(path).read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}.") from error
        return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 for errors in the program, 2 for one in the command."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        return _compile_within_bounds(arguments)
    except UserError as error:
        sys.stderr.write(f"cslc: error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _compile_within_bounds(arguments: Arguments) -> int:
    mebibytes = arguments.options.max_memory_mib
    assert mebibytes is not None
    try:
        with bounded(seconds=arguments.max_seconds, memory_bytes=mebibytes << 20):
            return compile_to_directory(arguments)
    except OutOfTimeError:
        text = f"the compile took more than {arguments.max_seconds} s of processor time"
        sys.stderr.write(f"error: {text}; --max-seconds gives it more\n")
    except MemoryError:
        text = f"the compile needs more than {mebibytes} MiB of memory"
        sys.stderr.write(f"error: {text}; --max-memory-mib gives it more\n")
    return _EXIT_ERRORS


def compile_to_directory(arguments: Arguments) -> int:
    """Compile and write; the exit code.

    Raises:
        UserError: The file is not there, or the output cannot be written.
    """
    # Imported here, so that --help and a wrong command line answer at once.
    from appliance.csl.compiler import compile_program  # noqa: PLC0415
    from appliance.sdk.container import write_container  # noqa: PLC0415

    if not arguments.main.is_file():
        raise UserError(f"There is no file {arguments.main}.")
    sources = FileSources()
    result = compile_program(str(arguments.main), arguments.options, sources)
    for line in result.printed:
        sys.stdout.write(f"{line}\n")
    for diagnostic in result.diagnostics:
        sys.stderr.write(diagnostic.render() + "\n")
    if result.program is None:
        return _EXIT_ERRORS
    names = write_container(
        result.program,
        arguments.output,
        sources=sources.texts,
        trace_events=arguments.trace_events,
    )
    if arguments.json_path is not None:
        _copy_parameters(arguments.output / "out.json", arguments.json_path)
    if arguments.is_verbose:
        for name in names:
            sys.stdout.write(f"wrote {arguments.output / name}\n")
    return 0


def _copy_parameters(source: Path, target: Path) -> None:
    try:
        target.write_bytes(source.read_bytes())
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error}.") from error


if __name__ == "__main__":
    sys.exit(main())
