"""What a plan says of a weight that its program masks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseWeight:
    """A weight of which every layer step loads no more than a mask lets through.

    It is *held* by its non-zeros if it has members, else it may be *gathered*: held whole and sent
    by its non-zeros. Otherwise it is dense, and handled like any other weight.

    Attributes:
        weight: `StateTensor.value` of the weight.
        mask: `StateTensor.value` of the mask, which is true where a value is let through.
        loads: Values that layer steps load; all are zero wherever the mask is false.
        members: State that is zero wherever the mask is false, and of which the update part uses
            nothing else: the weight and its optimizer state. Empty if that is not proven.
        copies: Those of `loads` that are the weight itself, once it is zero where the mask is
            false; no layer step loads one after the weight is overwritten.
        masked_totals: Sums of which the update part uses only what the mask lets through.
        totals: Those of layer steps that load the weight, and so know the pattern.
        scheduled_totals: Those of `totals` of which the update part uses more in steps that take a
            new mask; they come whole then, and by their non-zeros otherwise.
        whole_because: Why it is gathered and not held by its non-zeros, for people; empty if it is
            not gathered.
        dense_because: Why it is dense, for people; empty if it is not.
    """

    weight: str
    mask: str
    loads: tuple[str, ...]
    members: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    masked_totals: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    scheduled_totals: tuple[str, ...] = ()
    whole_because: str = ""
    dense_because: str = ""

    @property
    def is_gathered(self) -> bool:
        """Whether it is held whole and sent by its non-zeros."""
        return bool(self.whole_because)
