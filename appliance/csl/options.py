"""The options of a compilation, and where its source text comes from."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Options of one compilation."""

    architecture: str = "wse2"
    """`wse2` or `wse3`."""
    dialect: str = "any"
    """A release of the language (`releases.RELEASES`), or `any`: what each of them has."""
    fabric_dims: tuple[int, int] | None = None
    """Width and height of the fabric; None takes the smallest that fits."""
    fabric_offsets: tuple[int, int] = (0, 0)
    """Where the program's rectangle begins."""
    parameters: tuple[tuple[str, int], ...] = ()
    """`--params`, in order."""
    colors: tuple[tuple[str, int], ...] = ()
    """`--colors`, in order."""
    memcpy: bool = False
    channels: int = 0
    """I/O channels of memcpy, 1 to 16 with `memcpy`."""
    width_west_buf: int = 0
    width_east_buf: int = 0
    import_paths: tuple[str, ...] = ()
    """Directories in which files are looked for last, and `<name>` modules before our own."""
    fp16_format: str = "f16"
    max_inlined_iterations: int = 1000
    """Most turns of one loop that is unrolled."""
    comptime_depth: int = 200
    """Most nested function calls at compile time."""
    comptime_steps: int = 30_000_000
    """Most loop turns and calls at compile time, all together; a runaway loop ends here. A layout
    has some more for each PE and each route that it sets."""
    max_errors: int = 20
    """Errors after which the compilation stops."""
    max_memory_mib: int | None = None
    """What the caller lets the process take, for the error; None where nobody limits it."""
    warnings_as_errors: bool = False


class SourceLoader(Protocol):
    """Where source text comes from; the compiler itself opens no file."""

    def read(self, path: str) -> str | None:
        """The text of a file by its normalised path; None if there is none."""
