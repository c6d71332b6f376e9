"""Dataloaders as a run request carries them: pickled, which only the client's environment can."""

import subprocess
from functools import cache
from pathlib import Path

from tests.support.client import client_environment, client_venv

_PICKLE = """
import importlib, json, sys
import dill
module, function, arguments = sys.argv[1:4]
sys.path.insert(0, sys.argv[4])
builder = getattr(importlib.import_module(module), function)
print(dill.dumps(builder).hex())
print(dill.dumps(((), json.loads(arguments))).hex())
"""


def client_site_packages() -> Path:
    """Return where the client's packages lie, as the client itself reports it."""
    return client_venv() / "lib" / "python3.11" / "site-packages"


@cache
def pickled_loader(module: str, function: str, arguments: str, directory: str) -> tuple[str, str]:
    """Return builder and inputs of a dataloader as a run request carries them.

    Args:
        module: Module that has the function; the input workers import it.
        function: The function's name.
        arguments: Its keyword arguments, as JSON.
        directory: Where the module lies.
    """
    completed = subprocess.run(
        [client_venv() / "bin" / "python", "-c", _PICKLE, module, function, arguments, directory],
        check=True,
        capture_output=True,
        text=True,
        env=client_environment(),
    )
    builder, inputs = completed.stdout.split()
    return builder, inputs
