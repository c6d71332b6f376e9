"""Run labs against a running appliance and write their figures as slides, 1,920 x 1,080.

    python docs/labs/slides.py DIRECTORY [LAB...]

Without a LAB, as in `3_scaling`, all of them are run. In the client's environment, with `csctl` on
PATH, `CSCONFIG_PATH` and `WSC_REST` set (README.md).
"""

import base64
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

LABS = Path(__file__).resolve().parents[2] / "examples" / "labs"


def main(directory: str, *names: str) -> None:
    """Write a PNG file for each figure of the labs named, or of all."""
    notebooks = {path.stem: path for path in sorted(LABS.glob("*.ipynb"))}
    if unknown := [name for name in names if name not in notebooks]:
        sys.exit(f"There is no lab {unknown[0]!r}; labs are {', '.join(notebooks)}.")
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name in names or notebooks:
        document = nbformat.read(notebooks[name], as_version=4)
        where = {"metadata": {"path": str(LABS)}}
        NotebookClient(document, timeout=600, kernel_name="python3", resources=where).execute()
        for number, picture in enumerate(pictures(document), start=1):
            file = target / f"{name}-{number}.png"
            file.write_bytes(picture)
            print(file)


def pictures(document: nbformat.NotebookNode) -> list[bytes]:
    """Return the figures that the cells of a notebook drew."""
    outputs = [output for cell in document.cells for output in cell.get("outputs", ())]
    data = [output.get("data", {}) for output in outputs]
    return [base64.b64decode(each["image/png"]) for each in data if "image/png" in each]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
