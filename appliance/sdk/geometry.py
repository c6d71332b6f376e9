"""Points and rectangles of a fabric, as the SDK's layouts name them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntVector:
    """A point, or a size.

    Attributes:
        x: To the east.
        y: To the south.
    """

    x: int
    y: int

    def __add__(self, other: "IntVector") -> "IntVector":
        return IntVector(self.x + other.x, self.y + other.y)

    def __sub__(self, other: "IntVector") -> "IntVector":
        return IntVector(self.x - other.x, self.y - other.y)


@dataclass(frozen=True, slots=True)
class IntRectangle:
    """A rectangle.

    Attributes:
        origin: Its first point, or its corner if `dims` is a point, too.
        dims: Its width and height.
    """

    origin: IntVector
    dims: IntVector

    @property
    def width(self) -> int:
        """Columns."""
        return self.dims.x

    @property
    def height(self) -> int:
        """Rows."""
        return self.dims.y
