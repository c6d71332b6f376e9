"""Run a notebook in the client's own environment and write it with its outputs.

    python run_notebook.py NOTEBOOK OUT DIRECTORY

The kernel is this Python; nothing else is mocked or skipped.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(notebook: str, out: str, directory: str) -> None:
    document = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        document,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": directory}},
    )
    try:
        client.execute()
    finally:
        nbformat.write(document, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
