"""Starts programs in the client's environment, and an appliance for them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from appliance.management.store.instance import Instance
from benchmarks.engine_parties.interpreters import Program, text_of
from tests.support.appliance import running_appliance
from tests.support.client import start_piped_client
from tests.support.forked import is_shared

HERE = Path(__file__).resolve().parent


def client_python() -> Path:
    """Return the interpreter of the client's environment."""
    default = Path.home() / ".cache" / "wsc" / "client-2.10.0"
    return Path(os.environ.get("WSC_CLIENT_VENV") or default) / "bin" / "python"


def client_environment() -> dict[str, str]:
    """Return the environment variables of a client program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept["PATH"] = f"{client_python().parent}:{kept['PATH']}"
    kept["CSCONFIG_PATH"] = "/nonexistent"  # the address is given as an argument
    return kept


def start_client(script: str, *arguments: object, directory: Path, log: Path) -> Program:
    """Start one of the scripts of this folder; its standard output can be read."""
    words = [str(HERE / script), *map(str, arguments)]
    with log.open("w") as stream:
        if is_shared():
            return start_piped_client(words, work_dir=directory, errors=stream.fileno())
        return subprocess.Popen(
            [str(client_python()), *words],
            cwd=directory,
            env=client_environment(),
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )


def output_of(client: Program, log: Path) -> str:
    """Return what a client prints, once it has ended well."""
    with client:
        text = text_of(client.stdout).read()
    assert client.wait() == 0, log.read_text()[-4000:]
    return text


@contextlib.contextmanager
def appliance(data_dir: Path, *options: str) -> Iterator[str]:
    """Run an appliance; yields the address that clients are given."""
    if is_shared():
        with running_appliance(data_dir, *options) as forked:
            yield forked.address
        return
    command = [sys.executable, "-m", "appliance"]
    where = ["--data-dir", str(data_dir)]
    ports = ["--port", "0", "--rest-port", "0"]
    subprocess.run([*command, "up", *where, *ports, *options], check=True, capture_output=True)
    try:
        state = Instance(data_dir).find_state()
        assert state is not None
        yield state.address
    finally:
        subprocess.run([*command, "down", *where], check=True, capture_output=True)
