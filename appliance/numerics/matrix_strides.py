"""How matrices lie in memory, as libraries of linear algebra are told."""

import torch


def matrix_strides(matrix: torch.Tensor) -> tuple[int, int] | None:
    """Return the strides of a matrix that lies row by row or column by column, else None.

    That of an axis of one element says nothing, and becomes one that is possible.

    Args:
        matrix: (rows, columns).

    Returns:
        Elements from one row to the next, and from one column to the next; one of the two is 1.
    """
    rows, columns = matrix.shape
    down, right = matrix.stride()
    if right == 1 and (down >= columns or rows == 1):
        return max(down, columns), 1
    if down == 1 and (right >= rows or columns == 1):
        return 1, max(right, rows)
    return None
