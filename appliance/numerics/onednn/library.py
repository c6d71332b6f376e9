"""oneDNN's C interface, as far as it is used here.

Names and numbers are those of version 3 (dnnl.h, dnnl_types.h).
"""

import ctypes
import functools
import importlib.metadata
import logging
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch

from appliance.core.errors import InternalError

logger = logging.getLogger(__name__)

_PACKAGE = "onednn-cpu-gomp"
_LIBRARY = "libdnnl.so.3"
_OPENMP = "libgomp.so.1"

_CPU, _IN_ORDER, _SCRATCHPAD_IS_GIVEN = 1, 1, 1
_TYPES = {torch.bfloat16: 2, torch.float32: 3}
_UNIMPLEMENTED = 3
_QUERY_NAME, _QUERY_SCRATCHPAD = 8, 136
_SCRATCHPAD = 80

Handle = ctypes.c_void_p
"""Something of oneDNN's. Nothing is ever given back: there are as many as a plan has shapes."""

_Int, _Size = ctypes.c_int, ctypes.c_size_t
_New = ctypes.POINTER(Handle)
_Sizes = ctypes.POINTER(ctypes.c_int64)

_FUNCTIONS = {
    "dnnl_engine_create": (_New, _Int, _Size),
    "dnnl_stream_create": (_New, Handle, _Int),
    "dnnl_primitive_attr_create": (_New,),
    "dnnl_primitive_attr_set_scratchpad_mode": (Handle, _Int),
    "dnnl_memory_desc_create_with_strides": (_New, _Int, _Sizes, _Int, _Sizes),
    "dnnl_matmul_primitive_desc_create": (*(_New, Handle, Handle, Handle, Handle, Handle, Handle),),
    "dnnl_layer_normalization_forward_primitive_desc_create": (
        *(_New, Handle, _Int, Handle, Handle, Handle, ctypes.c_float, ctypes.c_uint, Handle),
    ),
    "dnnl_layer_normalization_backward_primitive_desc_create": (
        *(_New, Handle, _Int, Handle, Handle, Handle, Handle, ctypes.c_float, ctypes.c_uint),
        *(Handle, Handle),
    ),
    "dnnl_primitive_desc_query": (Handle, _Int, _Int, ctypes.POINTER(ctypes.c_char_p)),
    "dnnl_primitive_create": (_New, Handle),
    "dnnl_memory_create": (_New, Handle, Handle, Handle),
    "dnnl_memory_set_data_handle": (Handle, Handle),
    "dnnl_primitive_execute": (Handle, Handle, _Int, ctypes.c_void_p),
}
"""What is called, with its arguments; each returns a status, 0 if all is well."""


class _Argument(ctypes.Structure):
    """What a primitive reads or writes: `dnnl_exec_arg_t`."""

    _fields_ = (("arg", _Int), ("memory", Handle))


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A computation on tensors of given layouts, for one call at a time.

    Attributes:
        handle: Computes it.
        stream: Where it is computed.
        memories: Stand for its arguments, and last for its scratchpad, if it wants one; told for
            each call where those lie.
        arguments: The same as it takes them.
        scratch_bytes: What it works in.
    """

    handle: Handle
    stream: Handle
    memories: tuple[Handle, ...]
    arguments: "ctypes.Array[_Argument]"
    scratch_bytes: int


class Library:
    """The library on the memory of the processor; any thread may call it.

    Args:
        library: The shared library.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, _Int
        library.dnnl_primitive_desc_query_md.argtypes = (Handle, _Int, _Int)
        library.dnnl_primitive_desc_query_md.restype = Handle
        library.dnnl_memory_desc_get_size.argtypes = (Handle,)
        library.dnnl_memory_desc_get_size.restype = _Size
        self._library = library
        self._execute = library.dnnl_primitive_execute
        self._lay = library.dnnl_memory_set_data_handle
        self.engine = self._new("dnnl_engine_create", _CPU, 0)
        self.attributes = self._new("dnnl_primitive_attr_create")
        self._call("dnnl_primitive_attr_set_scratchpad_mode", self.attributes, _SCRATCHPAD_IS_GIVEN)
        self._scratches: list[torch.Tensor] = []

    def layout(
        self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Handle:
        """Return how a tensor of float32 or bfloat16 lies, its strides in elements."""
        array = ctypes.c_int64 * len(sizes)
        return self._new(
            "dnnl_memory_desc_create_with_strides",
            *(len(sizes), array(*sizes), _TYPES[dtype], array(*strides)),
        )

    def description(self, function: str, *arguments: object) -> Handle | None:
        """Return what describes a primitive; None if the library has no good way to compute it.

        Args:
            function: Which one makes it.
            arguments: What that takes.

        Raises:
            InternalError: The library refuses.
        """
        found = Handle()
        status = getattr(self._library, function)(ctypes.byref(found), *arguments)
        if status == _UNIMPLEMENTED:
            return None
        check(status, function)
        # Those are loops that show what is meant.
        return None if self._name(found).startswith("ref") else found

    def primitive(self, description: Handle, layouts: Mapping[int, Handle]) -> Primitive:
        """Return a primitive ready to run.

        Args:
            layouts: How its arguments lie, by their numbers.

        Raises:
            InternalError: The library refuses.
        """
        scratchpad = Handle(
            self._library.dnnl_primitive_desc_query_md(description, _QUERY_SCRATCHPAD, 0)
        )
        scratch_bytes = self._library.dnnl_memory_desc_get_size(scratchpad)
        given = {**layouts, _SCRATCHPAD: scratchpad} if scratch_bytes else layouts
        memories = tuple(
            self._new("dnnl_memory_create", layout, self.engine, None) for layout in given.values()
        )
        pairs = map(_Argument, given, memories)
        return Primitive(
            handle=self._new("dnnl_primitive_create", description),
            stream=self._new("dnnl_stream_create", self.engine, _IN_ORDER),
            memories=memories,
            arguments=(_Argument * len(given))(*pairs),
            scratch_bytes=scratch_bytes,
        )

    def run(self, primitive: Primitive, *tensors: torch.Tensor) -> None:
        """Compute, with a tensor for each argument in the order of its layouts.

        Raises:
            InternalError: The library refuses.
        """
        scratch = self._scratch(primitive.scratch_bytes)
        given = (*tensors, scratch) if primitive.scratch_bytes else tensors
        for memory, tensor in zip(primitive.memories, given, strict=True):
            self._lay(memory, tensor.data_ptr())
        arguments = primitive.arguments
        status = self._execute(primitive.handle, primitive.stream, len(arguments), arguments)
        self._scratches.append(scratch)
        check(status, "dnnl_primitive_execute")

    def _scratch(self, num_bytes: int) -> torch.Tensor:
        try:
            scratch = self._scratches.pop()
        except IndexError:
            return torch.empty(num_bytes, dtype=torch.uint8)
        return scratch if scratch.numel() >= num_bytes else scratch.new_empty(num_bytes)

    def _name(self, description: Handle) -> str:
        name = ctypes.c_char_p()
        self._call("dnnl_primitive_desc_query", description, _QUERY_NAME, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def _new(self, name: str, *arguments: object) -> Handle:
        handle = Handle()
        self._call(name, ctypes.byref(handle), *arguments)
        return handle

    def _call(self, name: str, *arguments: object) -> None:
        check(getattr(self._library, name)(*arguments), name)


Kept = TypeVar("Kept")


class Unused(Generic[Kept]):
    """A pool of prepared primitives that no thread uses now, by everything they depend on.

    There are as many keys as a plan has shapes; of each, as many as threads wanted at a time.
    """

    def __init__(self) -> None:
        self._free: dict[Hashable, list[Kept]] = {}
        self._impossible: set[Hashable] = set()

    def take(self, key: Hashable, prepare: Callable[[], Kept | None]) -> Kept | None:
        """Take a primitive out of the pool, or prepare one; None if it cannot be prepared.

        Args:
            key: What it depends on.
            prepare: Makes one; not asked again for a key for which it made none.
        """
        try:
            return self._free.setdefault(key, []).pop()
        except IndexError:
            made = None if key in self._impossible else prepare()
        if made is None:
            self._impossible.add(key)
        return made

    def give_back(self, key: Hashable, kept: Kept) -> None:
        """Return a primitive to the pool."""
        self._free[key].append(kept)


def check(status: int, what: str) -> None:
    """Raise if a call was refused.

    Raises:
        InternalError: It was.
    """
    if status != 0:
        raise InternalError(f"oneDNN refused {what}: status {status}.")


@functools.cache
def load_library() -> Library | None:
    """Return oneDNN; None where there is no such library."""
    path = _library_path()
    if path is None:
        return None
    try:
        # With an OpenMP library of its own it would use as many threads as there are cores.
        ctypes.CDLL(_OPENMP, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        return Library(ctypes.CDLL(str(path)))
    except OSError as error:
        logger.warning("Nothing is computed by oneDNN", extra={"reason": str(error)})
        return None


def _library_path() -> Path | None:
    """Return where the package has put its library; None where it is not installed."""
    try:
        files = importlib.metadata.files(_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:  # there is none for this kind of processor
        return None
    return next((Path(str(file.locate())) for file in files if file.name == _LIBRARY), None)
