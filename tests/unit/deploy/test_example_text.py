"""The text that examples/gpt trains on: the losses that documents print are losses on it."""

import hashlib
import lzma
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "gpt"


@pytest.mark.parametrize(
    ("split", "digest"),
    [
        ("train", "34a9bbfb40295c62ac6d21bcbb1d2eae55160cca9132cb8f9c898b210913a32b"),
        ("validation", "e335578c543ae605b2fc17ea180a759aaa59ef6a248a92e52f81983bc67414f4"),
    ],
)
def test_the_text_of_the_example_is_what_its_losses_are_of(split: str, digest: str) -> None:
    """Another byte moves every window behind it."""
    text = lzma.decompress((EXAMPLE / f"{split}.txt.xz").read_bytes())
    assert hashlib.sha256(text).hexdigest() == digest


def test_the_license_of_the_text_is_beside_it() -> None:
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in (EXAMPLE / "LICENSE.text").read_text()
