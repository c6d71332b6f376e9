"""deploy/setup.sh chooses the build of PyTorch: pip, venv and script are real, the wheels small.

Two indexes in a directory: the package index, whose build of PyTorch wants CUDA's libraries, and
one that the user names, which has a build without CUDA, or has none.
"""

import os
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "deploy" / "setup.sh"
TORCH, CLIENT = "2.4.0", "2.10.0"
NEEDS_CUDA = ("nvidia-cublas-cu12==12.1.3.1", "triton==3.0.0")


def put_wheel(index: Path, name: str, version: str, needs: Sequence[str] = ()) -> None:
    """Put a package without files into an index."""
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    names = ("METADATA", "WHEEL", "RECORD")
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join([*lines, ""]))
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/RECORD", "".join(f"{info}/{each},,\n" for each in names))
    links = [f'<a href="{path.name}">{path.name}</a>' for path in sorted(folder.glob("*.whl"))]
    (folder / "index.html").write_text("\n".join(links))


@pytest.fixture
def package_index(tmp_path: Path) -> Path:
    index = tmp_path / "packages"
    put_wheel(index, "torch", TORCH, NEEDS_CUDA)
    put_wheel(index, "cerebras-pytorch", CLIENT, [f"torch=={TORCH}"])
    put_wheel(index, "nvidia-cublas-cu12", "12.1.3.1")
    put_wheel(index, "triton", "3.0.0")
    return index


@pytest.fixture
def named_index(tmp_path: Path) -> Path:
    """An index with other versions of PyTorch."""
    index = tmp_path / "named"
    put_wheel(index, "torch", "2.3.1+cpu")
    return index


def installed(package_index: Path, **variables: str) -> tuple[dict[str, str], str]:
    """Return what `setup.sh client` installs, by name, and what it says of errors."""
    venv = package_index.parent / "client"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    index = {"PIP_INDEX_URL": package_index.as_uri(), "PIP_CONFIG_FILE": os.devnull}
    for name in ("WSC_CUDA", "WSC_TORCH_INDEX"):
        inherited.pop(name, None)
    done = subprocess.run(
        [str(SETUP), "client", str(venv)],
        env={**inherited, **index, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = venv.glob("lib/python3.*/site-packages/*.dist-info")
    versions = dict(path.name.removesuffix(".dist-info").split("-") for path in found)
    return versions, done.stderr


def test_a_build_without_cuda_of_the_index_that_the_user_names_is_preferred(
    package_index: Path, named_index: Path
) -> None:
    put_wheel(named_index, "torch", f"{TORCH}+cpu")
    found, said = installed(package_index, WSC_TORCH_INDEX=named_index.as_uri())
    assert found["torch"] == f"{TORCH}+cpu"
    assert found["cerebras_pytorch"] == CLIENT
    assert not {"triton", "nvidia_cublas_cu12"} & set(found)
    assert "package index's build" not in said


def test_stubs_stand_in_for_cuda_where_the_named_index_has_no_build(
    package_index: Path, named_index: Path
) -> None:
    url = named_index.as_uri()
    found, said = installed(package_index, WSC_TORCH_INDEX=url)
    assert f"setup: {url} has no torch=={TORCH}; the package index's build is taken" in said
    assert found["torch"] == TORCH
    assert found["triton"] == "3.0.0+stub"
    assert found["nvidia_cublas_cu12"] == "12.1.3.1+stub"


def test_cudas_libraries_are_installed_on_request_alone(package_index: Path) -> None:
    found, _ = installed(package_index, WSC_CUDA="1")
    assert found["torch"] == TORCH
    assert found["triton"] == "3.0.0"
    assert found["nvidia_cublas_cu12"] == "12.1.3.1"
