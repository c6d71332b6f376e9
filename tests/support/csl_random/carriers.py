"""What data pass through between memory and an operation: FIFOs and a color."""

from dataclasses import dataclass

from tests.support.csl_random.numbers import F16, F32, U16, Kind

U32 = Kind("u", 32)
MOVES = {U16: "mov16", U32: "mov32", F16: "fmovh", F32: "fmovs"}
"""What moves elements of a type."""
MOST = 6
"""Most elements that are in a FIFO at once."""

COLOR = """
const loop = @get_color(3);
const loop_in = @get_input_queue(2);
const loop_out = @get_output_queue(2);
comptime {
  @set_local_color_config(loop, .{ .routes = .{ .rx = .{RAMP}, .tx = .{RAMP} } });
  @initialize_queue(loop_in, .{ .color = loop });
  if (@is_arch("wse3")) { @initialize_queue(loop_out, .{ .color = loop }); }
}
"""


@dataclass(frozen=True, slots=True)
class Fifo:
    """A FIFO of a type of element; it is no first source of two."""

    name: str
    kind: Kind
    is_last: bool = True

    def declaration(self) -> str:
        """Return its text."""
        buffer = f"var {self.name}_buffer = @zeros([{MOST + 1}]{self.kind.name});"
        return f"{buffer}\nconst {self.name} = @allocate_fifo({self.name}_buffer);"

    def sent(self, view: str, length: int) -> list[str]:
        """Return what puts elements into it."""
        return [f"@{MOVES[self.kind]}({self.name}, {view});"]

    def came(self, length: int) -> str:
        """Return the operand that takes them out."""
        return self.name


@dataclass(frozen=True, slots=True)
class Loop:
    """A color from a PE to itself."""

    kind: Kind
    is_last: bool = False

    def sent(self, view: str, length: int) -> list[str]:
        """Return what sends elements, while the PE goes on."""
        given = f".extent = {length}, .output_queue = loop_out"
        move = MOVES[self.kind]
        return [
            'if (@is_arch("wse3")) {',
            f"  @{move}(@get_dsd(fabout_dsd, .{{ {given} }}), {view}, .{{ .async = true }});",
            "} else {",
            f"  @{move}(@get_dsd(fabout_dsd, .{{ {given}, .fabric_color = loop }}), {view}, "
            ".{ .async = true });",
            "}",
        ]

    def came(self, length: int) -> str:
        """Return the operand that receives them."""
        return f"@get_dsd(fabin_dsd, .{{ .extent = {length}, .input_queue = loop_in }})"


FIFOS = tuple(Fifo(f"fifo_{kind.name}", kind) for kind in MOVES)
LOOPS = tuple(Loop(kind) for kind in MOVES)


def declarations() -> list[str]:
    """Return what a program declares for them, in the 16-bit float that it uses."""
    return [COLOR, *(fifo.declaration() for fifo in FIFOS)]
