"""What an installation costs: read from what pip prints, and said in README as it was measured."""

from pathlib import Path

import pytest

from benchmarks.installation import Figures, fetched, recorded

README = Path(__file__).parents[3] / "README.md"


def test_downloads_and_wheels_of_the_machine_are_told_apart(tmp_path):
    wheel = tmp_path / "numpy-1-py3-none-any.whl"
    wheel.write_bytes(b"x" * 70)
    printed = (
        (0.0, "Collecting torch==2.4.0"),
        (1.0, "  Downloading torch-2.4.0-cp311-cp311-manylinux1_x86_64.whl (797.3 MB)"),
        (26.0, "Collecting typer"),
        (26.5, "  Downloading typer-1-py3-none-any.whl.metadata (15 kB)"),
        (27.5, f"Processing {wheel}"),
        (28.0, f"Processing {wheel} (from -r appliance.txt (line 38))"),
        (28.5, "Processing ./tmp/torch-2.4.0-cp311-cp311-manylinux1_x86_64.whl"),
        (90.0, "Installing collected packages: torch"),
    )
    found = fetched(printed)
    assert found.download == pytest.approx(797.3e6 + 15e3)
    assert found.local == 70
    assert found.seconds == pytest.approx(26.0)


@pytest.mark.parametrize("case", recorded())
def test_the_readme_says_what_was_measured(case):
    assert recorded()[case].sentence() in " ".join(README.read_text().split())


def test_wheels_of_the_machine_are_named_where_there_were_any():
    assert "from disk" in Figures(download_gb=1.1, local_gb=0.3, disk_gb=3.5).sentence()
    assert "from disk" not in Figures(download_gb=1.4, local_gb=0.0, disk_gb=3.5).sentence()
