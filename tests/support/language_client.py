"""A client of a language server: a process, and JSON-RPC over its standard input and output."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

COMMAND = (sys.executable, "-m", "appliance.sdk.language_server.command")


class LanguageClient:
    """Starts a server in a directory and speaks to it."""

    def __init__(self, root: Path, *, commands: Sequence[str] = ()) -> None:
        self.root = root
        self._options = {"commands": list(commands)}
        self._next = 0
        self.notifications: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            COMMAND, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> "LanguageClient":
        self.capabilities = self.ask(
            "initialize",
            processId=None,
            rootUri=self.root.as_uri(),
            capabilities={},
            initializationOptions=self._options,
        )["capabilities"]
        self.tell("initialized")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.ask("shutdown")
            self.tell("exit")
        else:
            self._process.kill()
        with self._process:
            self._process.wait()

    def ask(self, method: str, **params: Any) -> Any:
        """Send a question; return its answer, or its error."""
        self._next += 1
        self._send({"id": self._next, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._next and "method" not in message:
                return message["error"] if "error" in message else message["result"]
            self.notifications.append(message)

    def tell(self, method: str, **params: Any) -> None:
        """Send what has no answer."""
        self._send({"method": method, "params": params})

    def next_notification(self, method: str) -> dict[str, Any]:
        """Return the next notification of this kind, from those that came meanwhile on."""
        while True:
            message = self.notifications.pop(0) if self.notifications else self._receive()
            if message.get("method") == method:
                return dict(message["params"])

    def open(self, name: str) -> dict[str, str]:
        """Open a file of the directory; return how questions name it."""
        path = self.root / name
        document = {"uri": path.as_uri(), "languageId": "csl", "version": 1}
        self.tell("textDocument/didOpen", textDocument={**document, "text": path.read_text()})
        return {"uri": path.as_uri()}

    def change(self, name: str, text: str, version: int) -> None:
        """Replace the text of an open file."""
        document = {"uri": (self.root / name).as_uri(), "version": version}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        return dict(json.loads(self._process.stdout.read(length)))


def position(text: str, offset: int) -> dict[str, int]:
    """An offset as line and UTF-16 unit."""
    line = text.count("\n", 0, offset)
    start = text.rfind("\n", 0, offset) + 1
    return {"line": line, "character": len(text[start:offset].encode("utf-16-le")) // 2}
