"""Compiles the products to LLVM bitcode: `python -m appliance.numerics.sparse.native.build`.

Needs clang. The bitcode is committed, so that nobody who installs the appliance needs a compiler;
its digest says which sources it was made from. Bitcode knows no processor here: what names the one
it was built on is taken out, as is the width up to which vectors may be kept whole, so that a
processor with 512-bit vectors uses them.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

HERE = Path(__file__).parent
BITCODE = HERE / "products.bc"
DIGEST = HERE / "products.digest"
_COMPILER = "clang-19"
_FLAGS = (
    *("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-stack-protector"),
    *("-fno-asynchronous-unwind-tables", "-fno-vectorize", "-fno-slp-vectorize"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-psabi"),
)
_OF_A_PROCESSOR = r'"(target-cpu|target-features|tune-cpu|min-legal-vector-width)"="[^"]*" ?'


def digest() -> str:
    """Return the digest of everything that the bitcode depends on."""
    total = hashlib.sha256(" ".join(_FLAGS).encode())
    for path in sorted([*HERE.glob("*.h"), *HERE.glob("*.c")]):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def build(compiler: str = _COMPILER) -> bytes:
    """Return the products as bitcode.

    Raises:
        subprocess.CalledProcessError: The compiler does not accept the sources.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "products.ll"
        command = [compiler, *_FLAGS, "-S", "-emit-llvm", f"-I{HERE}"]
        subprocess.run([*command, str(HERE / "products.c"), "-o", str(output)], check=True)
        text = output.read_text()
    text = re.sub(_OF_A_PROCESSOR, "", text)
    text = re.sub(r"(?m)^(target (datalayout|triple)|source_filename) = .*\n", "", text)
    # A context of its own: names of types are unique in one, so a second build would differ.
    module = llvm.parse_assembly(text, context=llvm.create_context())
    bitcode: bytes = module.as_bitcode()
    return bitcode


if __name__ == "__main__":
    BITCODE.write_bytes(build(*sys.argv[1:2]))
    DIGEST.write_text(digest() + "\n")
