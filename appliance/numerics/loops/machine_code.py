"""LLVM as a just-in-time compiler: text in, a function to call with addresses out.

A text is compiled once in a process, for the processor it runs on, and kept as long as the process
lives; alike regions share it.
"""

import ctypes
import functools
from collections.abc import Callable

import llvmlite.binding as llvm

from appliance.numerics.loops.llvm_text import ENTRY_POINT

MachineCode = Callable[..., None]
"""Called with the number of elements and the address of each operand and result."""


@functools.cache
def compile_text(text: str, num_pointers: int) -> MachineCode:
    """Compile a function of `llvm_text`.

    Args:
        text: The module.
        num_pointers: Pointers that the function takes after the number of elements.

    Raises:
        RuntimeError: LLVM does not accept the text.
    """
    target = _target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    _ENGINES.append(engine)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * num_pointers)
    return kind(engine.get_function_address(ENTRY_POINT))


_ENGINES: list[object] = []
"""Owners of the machine code."""


@functools.cache
def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
    )
