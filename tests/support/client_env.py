"""The real client's own environment, and things that only it can make."""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

DEFAULT = Path.home() / ".cache" / "wsc" / "client-2.10.0"


def client_venv() -> Path:
    """Return the client's environment; `WSC_CLIENT_VENV` says where it is."""
    venv = Path(os.environ.get("WSC_CLIENT_VENV") or DEFAULT)
    assert (venv / "bin" / "python").exists(), f"no client in {venv}; run `make client`"
    return venv


def client_site_packages() -> Path:
    """Return where the client's packages lie, as the client itself reports it."""
    return client_venv() / "lib" / "python3.11" / "site-packages"


def run_in_client(script: str, *arguments: str, **variables: str) -> str:
    """Run a script with the client's interpreter and return its output."""
    venv = client_venv()
    completed = subprocess.run(
        [venv / "bin" / "python", "-c", script, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}", **variables},
        cwd=tempfile.gettempdir(),
    )
    return completed.stdout


_PICKLE = """
import importlib, json, sys
import dill
module, function, arguments = sys.argv[1:4]
sys.path.insert(0, sys.argv[4])
builder = getattr(importlib.import_module(module), function)
print(dill.dumps(builder).hex())
print(dill.dumps(((), json.loads(arguments))).hex())
"""


@cache
def pickled_loader(module: str, function: str, arguments: str, directory: str) -> tuple[str, str]:
    """Return builder and inputs of a dataloader as a run request carries them.

    Args:
        module: Module that has the function; the input workers import it.
        function: The function's name.
        arguments: Its keyword arguments, as JSON.
        directory: Where the module lies.
    """
    builder, inputs = run_in_client(_PICKLE, module, function, arguments, directory).split()
    return builder, inputs
