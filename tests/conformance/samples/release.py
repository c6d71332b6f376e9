"""Trace every sample with another release of the client and keep the program texts that differ.

Run it with that release's Python:

    ~/.cache/wsc/client-2.7.1/bin/python tests/conformance/samples/release.py [--only NAME ...]

A text that differs from the newest release's once both are normalised (`normalised`) is written to
`releases/RELEASE/NAME.mlir.gz`; its numbers are those of `NAME.npz`, which the CPU backend computes
the same way in every release. What the release cannot trace though the newest one can is printed.
Of texts that differ in the same way, the shortest are committed.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE)
sys.path.insert(1, str(HERE.parent / "client"))

import cerebras.pytorch as cstorch  # noqa: E402
from catalog import SAMPLES  # noqa: E402
from catalog.sample import Sample  # noqa: E402
from generate import in_child, lowering_tool, strip_paths, trace  # noqa: E402

LOCATION = re.compile(r" ?loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\")*\))*\)")
LOCATION_LINE = re.compile(r"^#loc.*\n", re.MULTILINE)


def normalised(text: str) -> str:
    """Return a program text without its debug locations, which name lines of the client."""
    return LOCATION.sub("", LOCATION_LINE.sub("", text))


def stored() -> dict[str, Sample]:
    """Return the samples whose program text is stored, by its name."""
    names = sorted(path.name.removesuffix(".mlir.gz") for path in HERE.glob("*.mlir.gz"))
    found = {}
    for name in names:
        if name in SAMPLES:
            found[name] = SAMPLES[name]
        else:
            found[name] = replace(SAMPLES[name.removesuffix(".forward")], training=False)
    return found


def newest_text(name: str) -> str:
    """Return the program text that the newest release traced."""
    return gzip.decompress((HERE / f"{name}.mlir.gz").read_bytes()).decode()


def compare(name: str, sample: Sample, out: Path) -> str:
    """Trace a sample and keep its text if it differs; return what there is to say of it."""
    raw, error = in_child(lambda scratch: trace(sample, scratch).encode())
    if raw is None:
        return error
    text = strip_paths(raw.decode())
    if normalised(text) == normalised(newest_text(name)):
        return ""
    (out / f"{name}.mlir.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return "differs"


def main() -> int:
    """Trace the samples that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names; all samples if empty")
    parser.add_argument("--out", type=Path, default=HERE / "releases" / cstorch.__version__)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with lowering_tool():
        for name, sample in stored().items():
            if not options.only or name in options.only:
                print(f"{name:40} {compare(name, sample, options.out)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
