"""Takes out of installed packages what nobody uses in an image without a GPU and a compiler.

    python trim_packages.py SITE_PACKAGES [DIRECTORY ...]

The tests that large packages install go from every directory that is named; the first has PyTorch,
too. Of it headers, tests and protobuf's compiler go. Of a build for CUDA with stubs for libraries
(`stub_wheels`), CUDA's part of PyTorch itself goes, too, 1 GB: a library with the same names
takes its place, whose functions nobody calls where `torch.cuda.is_available()` is False, apart from
those that run while it is loaded. Nothing of the processor's part is changed.
"""

import argparse
import shutil
import sys
from pathlib import Path

from elf import inert_library, read_needs

_CUDA = "libtorch_cuda.so"
_UNUSED = ("include", "share/cmake", "test", "bin/protoc*", "bin/test_*", "bin/*_test")
_BEHIND_CUDA = ("libtorch_cuda_*.so", "libcusparseLt*.so*")
"""Libraries that only CUDA's part of PyTorch loads."""
_SMALL_BYTES = 1 << 20
_WITH_TESTS = ("matplotlib", "networkx", "numpy", "pandas", "scipy", "sympy")
"""Packages whose tests are megabytes, and in folders that nothing else of them imports."""


def trim(site_packages: Path) -> int:
    """Take out what nobody uses; return how many bytes are left of PyTorch.

    Raises:
        ValueError: There is no PyTorch.
    """
    torch = site_packages / "torch"
    if not (torch / "lib").is_dir():
        raise ValueError(f"{site_packages} has no PyTorch.")
    for pattern in _UNUSED:
        for path in torch.glob(pattern):
            _remove(path)
    if (torch / "lib" / _CUDA).exists() and _has_stubs(site_packages):
        _replace_cuda(torch / "lib")
    return sum(path.stat().st_size for path in torch.rglob("*") if path.is_file())


def trim_tests(directory: Path) -> None:
    """Take the tests out of the packages of a directory, where they are."""
    for package in _WITH_TESTS:
        for tests in sorted((directory / package).rglob("tests")):
            if tests.is_dir():
                shutil.rmtree(tests)


def _has_stubs(site_packages: Path) -> bool:
    return any(site_packages.glob("nvidia_cublas*+stub.dist-info"))


def _replace_cuda(directory: Path) -> None:
    library = directory / _CUDA
    if library.stat().st_size < _SMALL_BYTES:
        return  # it is ours already
    offered = read_needs(library).offered
    for pattern in _BEHIND_CUDA:
        for path in directory.glob(pattern):
            _remove(path)
    names: set[str] = set()
    for path in directory.glob("*.so*"):
        if path != library:
            names |= read_needs(path).unversioned & offered
    replaced = library.with_suffix(".new")
    replaced.write_bytes(inert_library(_CUDA, names))
    replaced.chmod(0o755)
    replaced.replace(library)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Take out of packages what nobody uses.")
    parser.add_argument("site_packages", type=Path, help="where PyTorch is installed")
    parser.add_argument("more", type=Path, nargs="*", help="where other packages are installed")
    arguments = parser.parse_args()
    try:
        left = trim(arguments.site_packages)
        for directory in (arguments.site_packages, *arguments.more):
            trim_tests(directory)
    except (OSError, ValueError) as error:
        sys.exit(f"trim_packages: {error}")
    sys.stdout.write(f"{left / 1e6:,.0f} MB of PyTorch are left\n")


if __name__ == "__main__":
    main()
