"""The kernel's bitcode and its loader."""

import shutil
from pathlib import Path

import pytest

from appliance.csl.program.operations import INTRINSICS
from appliance.fabric.bytecode import RECORDS, SERVICES
from appliance.fabric.native import build
from appliance.fabric.native.loader import load_kernel


def test_the_bitcode_was_made_from_these_sources() -> None:
    assert build.DIGEST.read_text().strip() == build.digest(), (
        "run python -m appliance.fabric.native.build"
    )


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="needs clang-19")
def test_building_again_gives_the_same_bitcode() -> None:
    assert build.build() == build.BITCODE.read_bytes()


def test_records_have_the_size_that_the_kernel_expects() -> None:
    kernel = load_kernel()
    sizes = [kernel.layout(number) for number in range(len(RECORDS))]
    assert sizes == [record.itemsize for record in RECORDS]


def test_machine_code_is_kept_and_found_again(tmp_path: Path) -> None:
    load_kernel(str(tmp_path))
    kept = list(tmp_path.iterdir())
    assert len(kept) == 1
    load_kernel.cache_clear()
    written = kept[0].stat().st_mtime_ns
    load_kernel(str(tmp_path))
    assert kept[0].stat().st_mtime_ns == written


def test_every_service_of_the_language_is_known_to_the_machine() -> None:
    assert set(INTRINSICS) == set(SERVICES)
