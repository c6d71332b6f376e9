"""The golden samples are complete: every name of a program has its array, in the right shape."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "samples"
PROGRAMS = sorted(path.name.removesuffix(".mlir.gz") for path in FOLDER.glob("*.mlir.gz"))
ARGUMENT = re.compile(r"%arg\d+: tensor<((?:\d+x)*)\w+> \{([^}]*)\}")
NAME = re.compile(r'(tf\.resource_name|cs\.input_name) = "([^"]+)"')
ABSOLUTE_PATH = re.compile(r'"/[^"]*"')


def read(name: str) -> tuple[str, dict[str, np.ndarray]]:
    text = gzip.decompress((FOLDER / f"{name}.mlir.gz").read_bytes()).decode("ascii")
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return text, dict(arrays)


def arguments(text: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return every argument's kind and shape by its name."""
    found = {}
    for dims, attributes in ARGUMENT.findall(text):
        kind, name = NAME.search(attributes).groups()
        found[name] = (kind, tuple(int(size) for size in dims.split("x") if size))
    return found


def test_there_are_samples():
    assert len(PROGRAMS) > 300


def test_every_program_has_its_arrays_and_every_array_its_program():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_argument_has_an_array_of_its_shape(name):
    text, arrays = read(name)
    for argument, (kind, shape) in arguments(text).items():
        if kind == "cs.input_name":
            assert arrays[f"input/{argument}"].shape[1:] == shape
        else:
            assert arrays[f"initial/{argument}"].shape == shape


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_names_a_path_of_the_machine_that_traced_it(name):
    text, _ = read(name)
    assert ABSOLUTE_PATH.findall(text) == []
