"""One run of csctl: the inputs of its process, and the flags that every command has."""

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeVar

from google.protobuf.message import Message

from appliance.core.clock import Clock
from appliance.core.errors import UserError
from appliance.core.visible_text import visible_lines
from appliance.wire.caller import OBJECT_SESSION_KEY
from csctl.command_line.version import csctl_version
from csctl.connection.client import ClusterClient, connect
from csctl.connection.config import cluster_access, config_path, load_document
from csctl.connection.identity import current_user
from csctl.output.documents.output_formats import (
    Output,
    OutputFormat,
    Table,
    format_list,
    format_one,
    is_table,
    name_of,
)
from csctl.output.log_lines import for_terminal
from csctl.watching import Changes, looks

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Flags that every command has.

    Attributes:
        csconfig: Config file; None for the environment's or the usual one.
        namespace: Session to work in; None for the config's only one.
        debug: 0 hides tracebacks and the fields that the cluster gives a priority above 0.
    """

    csconfig: Path | None = None
    namespace: str | None = None
    debug: int = 0

    def overridden_by(self, later: "Flags") -> "Flags":
        """Return these flags with those that `later` sets."""
        return Flags(
            csconfig=later.csconfig or self.csconfig,
            namespace=later.namespace or self.namespace,
            debug=later.debug or self.debug,
        )


class Invocation:
    """What a command has at hand.

    Args:
        environ: The process environment.
        clock: For ages.
        stdout: Where answers go.
    """

    def __init__(self, *, environ: Mapping[str, str], clock: Clock, stdout: TextIO) -> None:
        self.flags = Flags()
        self._environ = environ
        self._clock = clock
        self._stdout = stdout

    @property
    def config_path(self) -> Path:
        """The config file of this run."""
        return config_path(self.flags.csconfig, self._environ)

    def now(self) -> dt.datetime:
        """Return the wall time, with time zone UTC."""
        return self._clock.now()

    def connect(self, session: str | None = None) -> AbstractContextManager[ClusterClient]:
        """Open the way to the cluster.

        Args:
            session: The one that the object's name was given with.

        Raises:
            UserError: The config does not lead to it, or `--namespace` names another session.
        """
        namespace = self.flags.namespace
        if session and namespace and session != namespace:
            raise UserError(
                f"The name is of session '{session}', and --namespace is '{namespace}'.",
                hint="Leave one of them out.",
            )
        path = self.config_path
        access = cluster_access(load_document(path), namespace=session or namespace, source=path)
        metadata = current_user(self._environ).metadata(build_version=csctl_version())
        if named := session or namespace:
            metadata += ((OBJECT_SESSION_KEY, named),)
        return connect(access, metadata=metadata)

    @property
    def environ(self) -> Mapping[str, str]:
        """The process environment."""
        return self._environ

    def write_parts(self, pieces: Iterable[str]) -> None:
        """Print text piece by piece, each at once; as it is, unless a terminal would obey it."""
        for text in for_terminal(pieces) if self._stdout.isatty() else pieces:
            self._stdout.write(text)
            self._stdout.flush()

    def note(self, text: str) -> None:
        """Tell the reader something that is no part of the answer."""
        self._stdout.flush()
        sys.stderr.write(f"{visible_lines(text)}\n")

    def write(self, text: str) -> None:
        """Print the text and a newline; no terminal obeys what the cluster or a user wrote."""
        self._stdout.write(f"{visible_lines(text)}\n")

    def write_table(self, text: str) -> None:
        """Print a table, which has colours of ours and shows what is in its cells."""
        self._stdout.write(f"{text}\n")

    def show_list(self, messages: Iterable[Message], *, table: Table, output: Output) -> None:
        """Print resources in the form asked for; no names are no line."""
        text = format_list(
            messages,
            table=table,
            output=output,
            debug=self.flags.debug,
            coloured=self.is_coloured,
        )
        if text:
            self._write_answer(text, output)

    def show(self, message: Message, *, table: Table, output: Output) -> None:
        """Print one resource in the form asked for."""
        text = format_one(
            message,
            table=table,
            output=output,
            debug=self.flags.debug,
            coloured=self.is_coloured,
        )
        self._write_answer(text, output)

    def _write_answer(self, text: str, output: Output) -> None:
        """Print an answer; what a template has taken from the cluster obeys no terminal either."""
        if isinstance(output, OutputFormat):
            self.write_table(text)
            return
        self.write_parts([text if text.endswith("\n") else f"{text}\n"])

    def watch_list(
        self,
        fetch: Callable[[], Sequence[M]],
        *,
        table: Callable[[Sequence[M]], Table],
        output: Output,
    ) -> None:
        """Print resources, then each one again when it changes, until somebody interrupts.

        Args:
            fetch: Asks the cluster for them.
            table: Makes their table, one line for each below the header.
            output: The form; documents come one after the other, without a list around them.
        """
        changes, is_first = Changes(), True
        for messages in looks(fetch):
            changed = set(changes(messages))
            shown = [each for each in messages if name_of(each) in changed]
            if is_table(output):
                self._write_rows(messages, changed, table(messages), output, has_header=is_first)
            else:
                for each in shown:
                    self.show(each, table=table([each]), output=output)
            self._stdout.flush()
            is_first = False

    def _write_rows(
        self,
        messages: Sequence[Message],
        changed: Set[str],
        table: Table,
        output: Output,
        *,
        has_header: bool,
    ) -> None:
        text = table(wide=output is OutputFormat.WIDE, coloured=self.is_coloured)
        header, *rows = text.split("\n")
        if has_header:
            self.write_table(header)
        for message, row in zip(messages, rows, strict=True):
            if name_of(message) in changed:
                self.write_table(row)

    @property
    def is_coloured(self) -> bool:
        """Whether a person reads it who has not said no to colours (no-color.org)."""
        return self._stdout.isatty() and not self._environ.get("NO_COLOR")
