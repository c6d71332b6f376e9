"""What is taken out of packages in images: a library of C++ that loads takes CUDA's place."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

LIGHT = Path(__file__).resolve().parents[3] / "deploy" / "light"
sys.path.insert(0, str(LIGHT))

import elf  # noqa: E402
import trim_packages  # noqa: E402

NAMES = {"_ZN4c10d15get_gil_checkerEv", "_ZN2at4cuda5sleepEl", "_ZTVN2at17CUDAGeneratorImplE"}
TYPES = {"_ZTIN4c10d16ProcessGroupNCCLE", "_ZTIN4c10d19ProcessGroupCudaP2PE"}
MIB = 1 << 20


@pytest.fixture
def library(tmp_path: Path) -> ctypes.CDLL:
    path = tmp_path / "libinert.so"
    path.write_bytes(elf.inert_library("libinert.so", NAMES | TYPES))
    return ctypes.CDLL(str(path))


def test_functions_return_a_variable_that_may_be_written(library: ctypes.CDLL) -> None:
    function = library["_ZN4c10d15get_gil_checkerEv"]
    function.restype = ctypes.POINTER(ctypes.c_uint64)
    assert function()[0] == 0
    function()[0] = 17
    assert function()[0] == 17


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_type_has_its_name(library: ctypes.CDLL, name: str) -> None:
    words = (ctypes.c_void_p * 2).in_dll(library, name)
    assert words[1] is not None
    assert ctypes.string_at(words[1]).decode() == name.removeprefix("_ZTI")


def installed(tmp_path: Path, *, has_stubs: bool) -> Path:
    """Return a directory with what is looked at of an installed PyTorch."""
    torch = tmp_path / "torch"
    for directory in ("lib", "include/ATen", "test", "bin"):
        (torch / directory).mkdir(parents=True)
    for name in ("include/ATen/a.h", "test/a", "bin/protoc", "bin/torch_shm_manager"):
        (torch / name).write_bytes(b"x")
    offering = elf.failing_library("libtorch_cuda.so", {"cudaOne": "", "cudaTwo": ""})
    (torch / "lib/libtorch_cuda.so").write_bytes(offering + bytes(2 * MIB))
    for name in ("libtorch_cuda_linalg.so", "libcusparseLt-f8.so.0"):
        (torch / "lib" / name).write_bytes(elf.failing_library(name, {}))
    (torch / "lib/libtorch_python.so").write_bytes(elf.failing_library("libtorch_python.so", {}))
    if has_stubs:
        (tmp_path / "nvidia_cublas_cu12-12.1.3.1+stub.dist-info").mkdir()
    return tmp_path


def test_cudas_part_goes_where_its_libraries_are_stubs(tmp_path: Path) -> None:
    site = installed(tmp_path, has_stubs=True)
    assert trim_packages.trim(site) < MIB
    left = {str(path.relative_to(site / "torch")) for path in site.rglob("*") if path.is_file()}
    assert left == {"lib/libtorch_cuda.so", "lib/libtorch_python.so", "bin/torch_shm_manager"}
    before = (site / "torch/lib/libtorch_cuda.so").read_bytes()
    trim_packages.trim(site)  # once more changes nothing
    assert (site / "torch/lib/libtorch_cuda.so").read_bytes() == before


def test_cudas_part_stays_where_its_libraries_are_real(tmp_path: Path) -> None:
    site = installed(tmp_path, has_stubs=False)
    assert trim_packages.trim(site) > 2 * MIB
    assert (site / "torch/lib/libtorch_cuda_linalg.so").exists()


def test_an_environment_without_pytorch_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(LIGHT / "trim_packages.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path} has no PyTorch" in done.stderr


def test_tests_of_large_packages_go_from_every_directory(tmp_path: Path) -> None:
    site, more = installed(tmp_path / "site", has_stubs=False), tmp_path / "more"
    kept = ("scipy/linalg/a.py", "other/tests/a.py")
    for directory in (site, more):
        for name in (*kept, "scipy/linalg/tests/data/a.npz", "numpy/tests/a.py"):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(b"x")
    subprocess.run(
        [sys.executable, str(LIGHT / "trim_packages.py"), str(site), str(more)], check=True
    )
    for directory in (site, more):
        assert not list((directory / "scipy").rglob("tests"))
        assert not (directory / "numpy/tests").exists()
        assert all((directory / name).exists() for name in kept)
