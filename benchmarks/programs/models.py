"""The models that engine benchmarks train, by name.

Only torch is imported here, so that the environments of the client and of the baselines have them.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Protocol

import torch

from benchmarks.programs import cnn, encoder, gpt


class Shape(Protocol):
    """Sizes of a model and of its batch: a dataclass of whole numbers."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def batch_size(self) -> int:
        """Samples in a step, over all systems."""
        ...

    @property
    def name(self) -> str:
        """A name for files and tables, which begins with that of the model."""
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


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is trained.

    Attributes:
        shape: Class of its sizes.
        module: Class of the model, made from its sizes.
        batches: Returns so many batches of given sizes, the same each time.
        unit: What throughput counts.
    """

    shape: Callable[..., Shape]
    module: Callable[[Any], torch.nn.Module]
    batches: Callable[[Any, int], list[dict[str, torch.Tensor]]]
    unit: str


MODELS = {
    "cnn": Model(shape=cnn.CnnShape, module=cnn.Cnn, batches=cnn.batches, unit="images"),
    "encoder": Model(
        shape=encoder.EncoderShape, module=encoder.Encoder, batches=encoder.batches, unit="tokens"
    ),
    "gpt": Model(shape=gpt.GptShape, module=gpt.Gpt, batches=gpt.batches, unit="tokens"),
}


def model_name(shape: Shape) -> str:
    """Return the name of the model that has these sizes."""
    return shape.name.partition("-")[0]


def model_of(shape: Shape) -> Model:
    """Return the model that has these sizes."""
    return MODELS[model_name(shape)]
