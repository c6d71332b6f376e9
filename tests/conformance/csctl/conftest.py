import contextlib
import io
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from csctl.command_line.running import main
from tests.support.csctl import Cluster, FixedClock, config_document, serve, write_config


@dataclass
class Answer:
    """What one command line printed, and its exit code."""

    out: str
    err: str
    code: int


@dataclass
class Shell:
    """Runs csctl command lines against one small cluster."""

    cluster: Cluster
    config: Path
    port: int

    def run(self, line: str) -> Answer:
        """Run the line, which starts after the program's name."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(shlex.split(line), clock=FixedClock())
        return Answer(out=out.getvalue(), err=err.getvalue(), code=code)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell on a user node whose CSCONFIG_PATH leads to an empty cluster."""
    cluster = Cluster()
    with serve(cluster) as port:
        config = write_config(tmp_path / "config_v2", config_document(f"localhost:{port}"))
        monkeypatch.setenv("CSCONFIG_PATH", str(config))
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.delenv("CSAUTH_TOKEN", raising=False)
        yield Shell(cluster=cluster, config=config, port=port)
