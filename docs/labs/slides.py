"""Run all labs against a running appliance and write their figures as slides, 1,920 x 1,080.

    python docs/labs/slides.py DIRECTORY

In the client's environment, with `csctl` on PATH, `CSCONFIG_PATH` and `WSC_REST` set (README.md).
"""

import base64
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

LABS = Path(__file__).resolve().parents[2] / "examples" / "labs"


def main(directory: str) -> None:
    """Write a PNG file for each figure of each lab."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for notebook in sorted(LABS.glob("*.ipynb")):
        document = nbformat.read(notebook, as_version=4)
        where = {"metadata": {"path": str(LABS)}}
        NotebookClient(document, timeout=600, kernel_name="python3", resources=where).execute()
        for number, picture in enumerate(pictures(document), start=1):
            file = target / f"{notebook.stem}-{number}.png"
            file.write_bytes(picture)
            print(file)


def pictures(document: nbformat.NotebookNode) -> list[bytes]:
    """Return the figures that the cells of a notebook drew."""
    outputs = [output for cell in document.cells for output in cell.get("outputs", ())]
    data = [output.get("data", {}) for output in outputs]
    return [base64.b64decode(each["image/png"]) for each in data if "image/png" in each]


if __name__ == "__main__":
    main(*sys.argv[1:])
