"""LLVM as a just-in-time compiler: from assembly or bitcode to functions that run on addresses.

A process compiles each module once, for its own processor, and caches the result as long as it
lives; equal regions share it. Processes with a cache directory store the machine code there under a
hash of the module, and reuse what others have compiled.
"""

import ctypes
import functools
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from appliance.numerics.loops.llvm_text import (
    ENTRY_POINT,
    PART_ENTRY_POINT,
    PART_WORDS,
    VECTOR_WIDTH,
)

logger = logging.getLogger(__name__)

_DIGEST_BYTES = 32
_PIECES_PER_THREAD = 4
"""So that a thread which others keep from its core does not hold up the rest for long."""


class MachineCode:
    """A compiled loop.

    Args:
        engine: Owner of the code.
        num_pointers: Number of operands and results.
    """

    def __init__(self, engine: llvm.ExecutionEngine, num_pointers: int) -> None:
        _ENGINES.append(engine)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * num_pointers
        )
        self._region = kind(engine.get_function_address(ENTRY_POINT))
        self._part = engine.get_function_address(PART_ENTRY_POINT)
        self._words = ctypes.c_int64 * (PART_WORDS + num_pointers)

    def run(self, size: int, pointers: Sequence[int]) -> None:
        """Run over a number of elements, with the address of each operand and result."""
        self._region(0, size, *pointers)

    def run_on_threads(self, size: int, pointers: Sequence[int], num_threads: int) -> None:
        """Do the same on several threads; each element is computed as one thread would.

        Must not be used where a result has one element only.
        """
        share = share_work()
        if share is None:
            self.run(size, pointers)
            return
        pieces = num_threads * _PIECES_PER_THREAD * VECTOR_WIDTH
        words = self._words(0, size, -(-size // pieces) * VECTOR_WIDTH, *pointers)
        share(self._part, words, num_threads, 0)


_ENGINES: list[llvm.ExecutionEngine] = []
"""Owners of machine code, and each of them of the one target machine: none may ever be freed."""


@functools.cache
def share_work() -> Callable[[int, object, int, int], None] | None:
    """Return the call of torch's OpenMP library that has a team of threads run a function.

    It is the team that runs torch's own operations for the calling thread, so that no more threads
    are at work than torch was told to use. None where torch was built without that library.
    """
    call = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    call.restype = None
    found: Callable[[int, object, int, int], None] = call
    return found


@functools.cache
def compile_text(text: str, num_pointers: int) -> MachineCode:
    """Compile the functions of `llvm_text`.

    Args:
        text: The module.
        num_pointers: Pointers that the loop takes.

    Raises:
        RuntimeError: LLVM does not accept the text.
    """
    return MachineCode(_engine(text), num_pointers)


@functools.cache
def compile_bitcode(bitcode: bytes, names: tuple[str, ...]) -> tuple[int, ...]:
    """Compile a module that clang has made; return the addresses of functions of it.

    Args:
        bitcode: The module, already optimized and for no processor in particular.
        names: The functions.

    Raises:
        RuntimeError: LLVM does not accept the module.
    """
    engine = _engine(bitcode)
    _ENGINES.append(engine)
    return tuple(engine.get_function_address(name) for name in names)


def _engine(module: str | bytes) -> llvm.ExecutionEngine:
    """Return the owner of a module's machine code, which is looked for and kept on disk."""
    path = _path(module)
    code = None if path is None else _load(path)
    if code is None:
        code = _emit(module)
        if path is not None:
            _keep(path, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def keep_machine_code(directory: Path | None) -> None:
    """Set the directory in which this process caches machine code.

    Whoever can write there decides what this process executes. If the directory cannot be created,
    this process compiles without a cache.

    Args:
        directory: It; None keeps nothing.
    """
    _DIRECTORIES.clear()
    if not directory:
        return
    try:
        Path(directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        logger.warning("Machine code is not kept", extra={"reason": str(error)})
        return
    _DIRECTORIES.append(Path(directory))


_DIRECTORIES: list[Path] = []
"""Where machine code is kept: nowhere, or in one directory."""


def _path(module: str | bytes) -> Path | None:
    if not _DIRECTORIES:
        return None
    version = (llvm.llvm_version_info, llvmlite.__version__, *_processor())
    content = module.encode() if isinstance(module, str) else module
    name = hashlib.sha256(f"{version}\n".encode() + content).hexdigest()
    return _DIRECTORIES[0] / f"{name}.o"


def _load(path: Path) -> bytes | None:
    """Return what is kept, if it is whole; a digest leads it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("Kept machine code cannot be read", extra={"reason": str(error)})
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _keep(path: Path, code: bytes) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(hashlib.sha256(code).digest() + code)
        draft.replace(path)
    except OSError as error:  # a full disk: the next process compiles as this one did
        logger.warning("Machine code is not kept", extra={"reason": str(error)})


def _emit(source: str | bytes) -> bytes:
    """Return the object file of a module."""
    target = _target_machine()
    if isinstance(source, bytes):
        module = llvm.parse_bitcode(source)
        module.triple, module.data_layout = target.triple, str(target.target_data)
        made: bytes = target.emit_object(module)
        return made
    module = llvm.parse_assembly(source)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


@functools.cache
def _processor() -> tuple[str, str]:
    """Return name and features of the processor that code is compiled for."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, jit=True
    )
