"""What the labs share: csctl, REST, tables and figures that fit a slide.

The labs run in the client's environment, with `csctl` on PATH. Those that train need an appliance:
`CSCONFIG_PATH` names its config, `WSC_REST` its REST interface, as `appliance status` prints both.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib_inline.config import InlineBackend

REST = os.environ.get("WSC_REST", "http://localhost:9001/api/v1")
BLUE, ORANGE, GREY = "#1f5fa8", "#c8641b", "#8a8a8a"

plt.rcParams.update(
    {
        "figure.figsize": (12.8, 7.2),  # a slide: 1,920 x 1,080 pixels at 150 dots per inch
        "figure.dpi": 150,
        "figure.constrained_layout.use": True,
        "font.size": 16,
        "axes.grid": True,
        "grid.alpha": 0.3,
    }
)

InlineBackend.instance().print_figure_kwargs = {"bbox_inches": None}  # keep that size

# `Any`: answers are JSON.


def csctl(*arguments: object) -> str:
    """Run csctl and return what it prints."""
    command = ["csctl", *map(str, arguments)]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)}: {finished.stderr.strip()}")
    return finished.stdout


def estimate(**numbers: object) -> list[dict[str, Any]]:
    """Ask `csctl estimate`: `hidden=64` is `--hidden 64`, `gated=True` the flag `--gated`."""
    words: list[object] = []
    for name, value in numbers.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(value)
    found: list[dict[str, Any]] = json.loads(csctl("estimate", *words, "-o", "json"))["items"]
    return found


def rest(path: str) -> Any:
    """Return what the appliance's REST interface says."""
    with urllib.request.urlopen(f"{REST}{path}") as answer:
        return json.load(answer)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows below a header, in columns."""
    lines = [list(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
