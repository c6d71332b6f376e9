"""The wheels in place of CUDA's libraries: they load, they fail in order, pip takes them."""

import ctypes
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

LIGHT = Path(__file__).resolve().parents[3] / "deploy" / "light"
sys.path.insert(0, str(LIGHT))

import elf  # noqa: E402
import stub_wheels  # noqa: E402

METADATA = """Metadata-Version: 2.1
Name: torch
Version: 9.9
Requires-Dist: filelock
Requires-Dist: nvidia-cublas-cu12 (==12.1.3.1) ; platform_system == "Linux"
Requires-Dist: nvidia-cuda-runtime-cu12==12.1.105; platform_system == "Linux"
Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"
Requires-Dist: triton==3.0.0
Requires-Dist: opt-einsum>=3.3; extra == "opt-einsum"
"""
TORCH = PurePosixPath("torch/lib/libtorch_cuda.so")


@pytest.fixture
def library(tmp_path: Path) -> ctypes.CDLL:
    functions = {f"cublas{number}": "libcublas.so.12" for number in range(200)}
    path = tmp_path / "libcublas.so.12"
    path.write_bytes(elf.failing_library("libcublas.so.12", {**functions, "ncclSend": ""}))
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def test_a_stub_loads_and_each_of_its_functions_returns_an_error(library: ctypes.CDLL) -> None:
    assert {library[f"cublas{number}"]() for number in range(200)} == {1}
    assert library.ncclSend() == 1
    with pytest.raises(AttributeError):
        _ = library.cublas200


def test_a_stub_offers_its_functions_under_the_version_that_is_asked_for(
    library: ctypes.CDLL,
) -> None:
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    assert libc.dlvsym(library._handle, b"cublas7", b"libcublas.so.12")
    assert not libc.dlvsym(library._handle, b"cublas7", b"libcublas.so.11")


def test_needs_of_a_real_library_are_read() -> None:
    llvmlite = pytest.importorskip("llvmlite")
    (path,) = (Path(llvmlite.__file__).parent / "binding").glob("libllvmlite.so")
    needs = elf.read_needs(path)
    assert "libc.so.6" in needs.libraries
    assert "LLVMPY_CreateContext" in needs.offered or "LLVMPY_ContextCreate" in needs.offered
    from_libc = [names for (name, _), names in needs.versioned.items() if name == "libc.so.6"]
    assert "memcpy" in set().union(*from_libc)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("GROUP ( libm.so.6 )" * 10)
    with pytest.raises(ValueError, match=r"text\.so is no 64-bit little-endian ELF file"):
        elf.read_needs(path)


def test_a_library_of_cuda_is_stubbed_where_it_is_looked_for_and_the_systems_are_not() -> None:
    needs = {
        TORCH: elf.Needs(
            libraries=("libcublas.so.12", "libnccl.so.2", "libcudart.so.12", "libc.so.6"),
            directories=("$ORIGIN", "$ORIGIN/../../nvidia/cublas/lib"),
            versioned={
                ("libcublas.so.12", "libcublas.so.12"): {"cublasCreate"},
                ("libc.so.6", "GLIBC_2.2.5"): {"memcpy"},
                ("libcudart.so.12", "libcudart.so.12"): {"cudaMalloc"},
            },
            unversioned={"ncclSend", "PyList_New", "_ZNSs9_M_createE", "torch_init"},
        ),
        PurePosixPath("torch/lib/libtorch.so"): elf.Needs(offered={"torch_init"}),
    }
    found = stub_wheels.libraries_of(needs)
    assert found == {
        "libcublas.so.12": stub_wheels.Library(
            directories={"nvidia/cublas/lib"}, functions={"cublasCreate": "libcublas.so.12"}
        ),
        "libnccl.so.2": stub_wheels.Library(
            directories={"nvidia/cublas/lib"}, functions={"ncclSend": ""}
        ),
    }


def test_wheels_replace_cudas_packages_and_keep_those_that_are_called(tmp_path: Path) -> None:
    written = stub_wheels.write_wheels(METADATA, {}, tmp_path)
    assert [path.name.split("-")[:2] for path in written] == [
        ["nvidia_cublas_cu12", "12.1.3.1+stub"],
        ["cuda_toolkit", "13.0.3+stub"],
        ["triton", "3.0.0+stub"],
    ]
    with zipfile.ZipFile(written[1]) as archive:
        metadata = archive.read("cuda_toolkit-13.0.3+stub.dist-info/METADATA").decode()
    assert "Requires-Dist: nvidia-cuda-runtime==13.0.*" in metadata
    assert "cublas==" not in metadata


def test_pip_installs_what_is_written(tmp_path: Path) -> None:
    stub_wheels.write_wheels("Requires-Dist: triton==3.0.0\n", {}, tmp_path)
    target = tmp_path / "site"
    options = ("--no-index", "--find-links", str(tmp_path), "--target", str(target))
    command = (sys.executable, "-m", "pip", "install", "-q", *options, "triton==3.0.0")
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    assert [path.name for path in target.iterdir()] == ["triton-3.0.0+stub.dist-info"]


def test_a_build_without_cuda_needs_no_stub(tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch-9.9.dist-info/METADATA", "Requires-Dist: filelock\n")
        archive.writestr("torch/lib/libtorch.so", "not even looked at")
    assert stub_wheels.write_wheels(*stub_wheels.read_wheel(wheel), tmp_path) == []
