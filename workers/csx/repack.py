"""Rebuilds long-lived values after the plan is freed, so they do not pin its memory.

Python gives memory back to the system by the megabyte, and only when nothing in it is used any
more. Long-lived objects that are created while a plan is read lie among its nodes, and would hold
all that memory: some 17 MB for a GPT of 48 layers. So they are serialised, the plan is dropped, and
they are rebuilt from the serialised form.
"""

import io
import pickle
from typing import Any, Generic, TypeVar

import torch

Value = TypeVar("Value")


class Packed(Generic[Value]):
    """A value written down: values of ours and of Python's, tensors as they are.

    Args:
        value: It; whoever wants its memory back must not hold it any longer.
    """

    def __init__(self, value: Value) -> None:
        text = io.BytesIO()
        writer = _Writer(text)
        writer.dump(value)
        self._text, self._tensors = text.getvalue(), writer.tensors

    def make(self) -> Value:
        """Return an equal value that shares nothing but the elements of tensors."""
        reader = _Reader(io.BytesIO(self._text), self._tensors)
        value: Value = reader.load()
        return value


class _Writer(pickle.Pickler):
    """Puts tensors aside."""

    def __init__(self, text: io.BytesIO) -> None:
        super().__init__(text, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, obj: object) -> int | None:
        """Return the number of a tensor, None for any other object."""
        if not isinstance(obj, torch.Tensor):
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1


class _Reader(pickle.Unpickler):
    """Puts views of the tensors where they belong."""

    def __init__(self, text: io.BytesIO, tensors: list[torch.Tensor]) -> None:
        super().__init__(text)
        self._tensors = tensors

    def persistent_load(self, pid: Any) -> torch.Tensor:  # noqa: ANN401 - the base class's type
        """Return the tensor of a number."""
        tensor: torch.Tensor = self._tensors[pid]
        return tensor.detach()
