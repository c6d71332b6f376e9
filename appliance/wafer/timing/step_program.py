"""One training step as the wafer sees it: operations, traffic, and what a sample costs to prepare.

A `StepProgram` speaks of *one sample*; timing scales it to a micro-batch. It is the common product
of `transformer` (a description) and `program_operations` (a plan).
"""

from dataclasses import dataclass

from appliance.wafer.timing.operations import LayerTraffic, OperationTable


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgram:
    """A step, for a batch of one.

    Attributes:
        name: For reports.
        table: Its operations, tokens of one sample.
        layers: Its layer steps in stream order; activation bytes of one sample.
        num_parameters: Elements of all weights.
        working_bytes_per_sample: The most that one layer step keeps on the wafer for each sample.
        largest: What takes the most of that, as (name, bytes per sample).
        boundary_bytes_per_sample: What must outlive its layer step until the backward pass.
        tokens_per_sample: Length of a sample.
        is_prepared_singly: Whether an input worker prepares each sample by itself: a file that it
            opens, decodes and augments (image data sets), or a row that it reads without loader
            processes (`num_workers: 0`), instead of slicing a packed array.
        waits_for_norm: Whether no weight may be updated before the last gradient is known.
        fixed_bytes: Kept on the wafer whatever the samples, as constants are.
        stage_bytes_per_sample: What all layer steps side by side keep on the wafer for each sample.
        waiting: What outlives its layer step, as (bytes per sample, layer steps that it waits);
            infinitely many where it waits for the whole batch.
        num_segments: Parts of the step between which all samples wait for a sum over the batch,
            without one before anything is loaded.
        num_trained: Elements that are trained, where that is not all of them; 0 in an evaluation.
    """

    name: str
    table: OperationTable
    layers: tuple[LayerTraffic, ...]
    num_parameters: float
    working_bytes_per_sample: float
    largest: tuple[str, float]
    boundary_bytes_per_sample: float
    tokens_per_sample: int
    is_prepared_singly: bool = False
    waits_for_norm: bool = False
    fixed_bytes: float = 0.0
    stage_bytes_per_sample: float = 0.0
    waiting: tuple[tuple[float, float], ...] = ()
    num_segments: int = 1
    num_trained: float | None = None

    @property
    def trained_parameters(self) -> float:
        """Elements that are trained."""
        return self.num_parameters if self.num_trained is None else self.num_trained

    @property
    def is_sparse(self) -> bool:
        """Whether weights are streamed without their zeros."""
        return any(layer.density < 1 for layer in self.layers)

    @property
    def updated_share(self) -> float:
        """The part of the parameters that have a gradient: those that are not zero for good."""
        total = sum(layer.gradient_elements for layer in self.layers)
        kept = sum(layer.gradient_elements * layer.gradient_density for layer in self.layers)
        return kept / total if total else 1.0
