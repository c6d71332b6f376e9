"""Compiles the kernel to LLVM bitcode: `python -m appliance.fabric.native.build`.

Needs clang. The bitcode is committed, so that nobody who installs the appliance needs a compiler;
its digest says which sources it was made from. Bitcode knows no processor here: what names the one
it was built on is taken out, and the loader compiles it for the machine it runs on.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

from appliance.csl.program import registers
from appliance.fabric import bytecode

HERE = Path(__file__).parent
BITCODE = HERE / "kernel.bc"
DIGEST = HERE / "kernel.digest"
_COMPILER = "clang-19"
_FLAGS = (
    *("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-stack-protector"),
    *("-fno-asynchronous-unwind-tables", "-fno-builtin-printf", "-fno-strict-aliasing"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-incompatible-library-redeclaration"),
)


def header() -> str:
    """Return the generated header: numbers that Python and C share."""
    lines = ["/* Generated from appliance/fabric/bytecode.py. */", "#ifndef FABRIC_NUMBERS_H"]
    lines.append("#define FABRIC_NUMBERS_H")
    lines.append("#define ALL_LABELS " + ", ".join(f"&&L_{op.name}" for op in bytecode.Op))
    lines.append("enum { " + ", ".join(f"V_{name}" for name in bytecode.VECTOR_OPS))
    lines.append(", NUM_VECTOR_OPS };")
    lines.append("#define ALL_VECTOR_OPS(X) " + " ".join(f"X({n})" for n in bytecode.VECTOR_OPS))
    for prefix, kinds in (
        ("OP", bytecode.Op),
        ("DSD", bytecode.DsdKind),
        ("OPERAND", bytecode.OperandKind),
        ("FAULT", bytecode.Fault),
        ("TARGET", bytecode.TargetNumber),
        ("TRACE", bytecode.TraceKind),
    ):
        members = ", ".join(f"{prefix}_{kind.name} = {kind.value}" for kind in kinds)
        lines.append(f"enum {{ {members} }};")
    lines.append(f"enum {{ BREAK = {bytecode.BREAK:#x} }};")
    lines.append(f"enum {{ MAX_ARGUMENTS = {bytecode.MAX_ARGUMENTS} }};")
    places = ("ROUTE_REGISTERS", "SWITCH_REGISTERS", "QUEUE_REGISTERS")
    words = ", ".join(f"{name} = {getattr(registers, name):#x}" for name in places)
    lines.append(f"enum {{ {words} }};")
    services = ", ".join(f"SERVICE_{name}" for name in bytecode.SERVICES)
    lines += [f"enum {{ {services} }};", "#endif", ""]
    return "\n".join(lines)


def digest() -> str:
    """Return the digest of everything that the bitcode depends on."""
    total = hashlib.sha256(header().encode())
    for path in sorted([*HERE.glob("*.h"), *HERE.glob("*.c")]):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def build(compiler: str = _COMPILER) -> bytes:
    """Return the kernel as bitcode.

    Raises:
        subprocess.CalledProcessError: The compiler does not accept the sources.
    """
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "numbers.h").write_text(header())
        output = Path(directory) / "kernel.ll"
        command = [compiler, *_FLAGS, "-S", "-emit-llvm", f"-I{directory}", f"-I{HERE}"]
        subprocess.run([*command, str(HERE / "kernel.c"), "-o", str(output)], check=True)
        text = output.read_text()
    text = re.sub(r'"(target-cpu|target-features|tune-cpu)"="[^"]*" ?', "", text)
    text = re.sub(r"(?m)^(target (datalayout|triple)|source_filename) = .*\n", "", text)
    # A context of its own: names of types are unique in one, so a second build would differ.
    module = llvm.parse_assembly(text, context=llvm.create_context())
    bitcode: bytes = module.as_bitcode()
    return bitcode


def build_library(path: Path, compiler: str, *flags: str) -> None:
    """Compile the kernel to a shared library, for tools that instrument machine code.

    Raises:
        subprocess.CalledProcessError: The compiler does not accept the sources.
    """
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "numbers.h").write_text(header())
        command = [compiler, *_FLAGS[:3], *flags, "-shared", "-fPIC", f"-I{directory}"]
        command += [f"-I{HERE}", str(HERE / "kernel.c"), "-lm", "-lpthread", "-o", str(path)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    BITCODE.write_bytes(build(*sys.argv[1:2]))
    DIGEST.write_text(digest() + "\n")
