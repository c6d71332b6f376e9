"""Turns the kernel's bitcode into machine code of this processor and finds its functions.

A process compiles it once (about half a second) unless another has left the machine code in a
directory that it was told of: there it is kept by the content of the bitcode, the version of LLVM
and the processor.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

_P, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64

_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "fabric_layout": (_U64, (_U32,)),
    "fabric_new": (_P, (_P, _P, _P, _P, _P, _P)),
    "fabric_free": (None, (_P,)),
    "fabric_start": (None, (_P,)),
    "fabric_run": (_U32, (_P, _U64, _U32, _U64, _U64)),
    "fabric_memory": (_P, (_P, _U32)),
    "fabric_call": (None, (_P, _U32, _U32, _P, _U32, _U32)),
    "fabric_stream": (None, (_P, _U32, _U32, _U32, _P, _U32, _U32)),
    "fabric_reset_streams": (None, (_P,)),
    "fabric_watch": (None, (_P, _P)),
    "fabric_trace": (_U32, (_P, _U64)),
    "fabric_pass": (None, (_P, _U64)),
    "fabric_value": (_U64, (_P, _U32)),
    "fabric_inspect": (_U64, (_P, _U32, _U32, _U32)),
}


class Kernel:
    """The kernel's functions, by name without `fabric_`.

    Args:
        address_of: Returns where a function of a name lies in this process.
    """

    def __init__(self, address_of: Callable[[str], int]) -> None:
        for name, (result, arguments) in _SIGNATURES.items():
            kind = ctypes.CFUNCTYPE(result, *arguments)  # type: ignore[arg-type]  # mixed kinds
            setattr(self, name.removeprefix("fabric_"), kind(address_of(name)))

    layout: Callable[[int], int]
    new: Callable[..., int]
    free: Callable[[int], None]
    start: Callable[[int], None]
    run: Callable[[int, int, int, int, int], int]
    memory: Callable[[int, int], int | None]
    call: Callable[..., None]
    stream: Callable[..., None]
    reset_streams: Callable[[int], None]
    value: Callable[[int, int], int]
    watch: Callable[[int, int | None], None]
    trace: Callable[[int, int], int]
    inspect: Callable[[int, int, int, int], int]

    def let_pass(self, machine: int, cycles: int) -> None:
        """Let time pass while nothing moves."""
        getattr(self, "pass")(machine, cycles)


_ENGINES: list[llvm.ExecutionEngine] = []
"""Owners of machine code, and each of them of the one target machine: none may ever be freed."""


@functools.cache
def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True
    )


def _linked(code: bytes) -> Kernel:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    _ENGINES.append(engine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Kernel(engine.get_function_address)


def _bitcode() -> bytes:
    return (resources.files(__package__) / "kernel.bc").read_bytes()


def _key(bitcode: bytes) -> str:
    parts = [llvmlite.__version__, platform.machine(), llvm.get_host_cpu_name()]
    parts.append(llvm.get_host_cpu_features().flatten())
    return hashlib.sha256(bitcode + "\0".join(parts).encode()).hexdigest()


def _emit(bitcode: bytes) -> bytes:
    machine = _target_machine()
    module = llvm.parse_bitcode(bitcode)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def load_kernel(directory: str | None = None) -> Kernel:
    """Return the kernel, compiled for this processor.

    Args:
        directory: Where machine code is kept between processes; whoever can write there decides
            what this process executes. None compiles anew.
    """
    bitcode = _bitcode()
    if directory is None:
        return _linked(_emit(bitcode))
    path = Path(directory) / f"fabric-{_key(bitcode)}.o"
    with contextlib.suppress(OSError):
        return _linked(path.read_bytes())
    code = _emit(bitcode)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(code)
        partial.replace(path)
    return _linked(code)
