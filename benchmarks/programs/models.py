"""The models that engine benchmarks train, by the name of their module."""

import importlib
from dataclasses import Field
from typing import Any, ClassVar, Protocol

import torch

MODELS = ("cnn", "encoder", "gpt")


class Shape(Protocol):
    """Sizes of a model and of its batch: a dataclass of whole numbers."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def batch_size(self) -> int:
        """Samples in a step, over all systems."""
        ...

    @property
    def name(self) -> str:
        """A name for files and tables, which begins with that of the model's module."""
        ...

    @property
    def units_a_step(self) -> int:
        """What throughput counts, in a step."""
        ...

    @property
    def num_parameters(self) -> int:
        """Parameters, about."""
        ...

    @property
    def activation_bytes(self) -> int:
        """Estimated bytes of a step's activations in float32."""
        ...


def model_of(shape: Shape) -> str:
    """Return the name of the module that has a shape's model."""
    return shape.name.partition("-")[0]


def build(shape: Shape) -> torch.nn.Module:
    """Return the model, with weights as torch's generator gives them."""
    model: torch.nn.Module = _module(shape).MODEL(shape)
    return model


def batches(shape: Shape, count: int) -> list[dict[str, torch.Tensor]]:
    """Return so many batches, the same each time."""
    found: list[dict[str, torch.Tensor]] = _module(shape).batches(shape, count)
    return found


def unit(shape: Shape) -> str:
    """Return what throughput counts, such as `tokens`."""
    return str(_module(shape).UNIT)


def _module(shape: Shape) -> Any:  # noqa: ANN401 - a module of this package
    return importlib.import_module(f"benchmarks.programs.{model_of(shape)}")
