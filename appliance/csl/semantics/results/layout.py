"""The layout block: which code and which routes each PE has."""

from array import array

from appliance.csl.diagnostics import Note
from appliance.csl.program.placement import ColorConfiguration, RpcSymbol
from appliance.csl.semantics.context.frames import Frame, World
from appliance.csl.semantics.context.session import Session
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const
from appliance.csl.sources import Span
from appliance.csl.syntax import tree

NOT_SET = 0xFFFFFFFF
MAX_CLASSES = 1 << 16
"""Most pairs of file and parameters: each is compiled by itself."""
MAX_PES = 4_000_000


class LayoutWorld(World):
    """Collects what the layout block says."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.width = 0
        self.height = 0
        self.rectangle: Span | None = None
        self.codes: list[tuple[str | None, dict[str, Const], Note]] = []
        """Code classes: file, parameters, and where the first PE got them."""
        self.first_tile: list[tuple[int, int]] = []
        self.code_of = array("I")
        self.configurations: list[tuple[ColorConfiguration, Span] | None] = [None]
        """Configurations of colors, and where the first PE got them."""
        self.routes: dict[int, array[int]] = {}
        """For each color the number of its configuration at each PE."""
        self.exports: dict[str, RpcSymbol] = {}
        self.export_types: dict[str, tuple[Type, bool]] = {}
        self.export_spans: dict[str, Span] = {}
        self._code_numbers: dict[object, int] = {}
        self._configuration_numbers: dict[object, int] = {}
        self.parsed: dict[object, ColorConfiguration] = {}
        """Configurations by the key of the struct that gave them."""

    def set_rectangle(self, width: int, height: int, node: tree.Node, frame: Frame) -> None:
        """`@set_rectangle`."""
        if self.rectangle is not None:
            note = Note("the first call is here", self.rectangle)
            frame.fail(node, "@set_rectangle is called twice", (note,))
        if width < 1 or height < 1:
            frame.fail(node, f"a rectangle of {width} x {height} PEs is empty")
        if width * height > MAX_PES:
            frame.fail(node, f"a rectangle of {width} x {height} PEs is too large")
        self.rectangle = frame.span(node)
        self.width, self.height = width, height
        self.code_of = array("I", [NOT_SET]) * (width * height)

    def tile_index(self, x: int, y: int, node: tree.Node, frame: Frame) -> int:
        """The number of a PE, row by row."""
        if self.rectangle is None:
            frame.fail(node, "call @set_rectangle first")
        if not (0 <= x < self.width and 0 <= y < self.height):
            frame.fail(
                node, f"PE ({x}, {y}) is outside the rectangle of {self.width} x {self.height}"
            )
        return y * self.width + x

    def set_code(
        self,
        x: int,
        y: int,
        file: str | None,
        parameters: Const | None,
        node: tree.Node,
        frame: Frame,
    ) -> None:
        """`@set_tile_code`."""
        at = self.tile_index(x, y, node, frame)
        if self.code_of[at] != NOT_SET:
            note = self.codes[self.code_of[at]][2]
            frame.fail(node, f"PE ({x}, {y}) already has code", (note,))
        key = (file, parameters.key if parameters is not None else None)
        number = self._code_numbers.get(key)
        if number is None:
            number = len(self.codes)
            if number == MAX_CLASSES:
                frame.fail(node, f"more than {MAX_CLASSES} different codes of PEs")
            self._code_numbers[key] = number
            self.codes.append((file, _named(parameters), _origin(x, y, node, frame)))
            self.first_tile.append((x, y))
        self.code_of[at] = number

    def set_route(
        self, at: int, configuration: ColorConfiguration, node: tree.Node, frame: Frame
    ) -> None:
        """`@set_color_config` of one PE."""
        number = self._configuration_numbers.get(configuration)
        if number is None:
            number = len(self.configurations)
            self._configuration_numbers[configuration] = number
            self.configurations.append((configuration, frame.span(node)))
        color = configuration.color
        of_color = self.routes.get(color)
        if of_color is None:
            of_color = self.routes[color] = array("I", [0]) * (self.width * self.height)
        if of_color[at]:
            y, x = divmod(at, self.width)
            frame.fail(node, f"color {color} of PE ({x}, {y}) is configured twice")
        of_color[at] = number


def _named(parameters: Const | None) -> dict[str, Const]:
    if parameters is None or parameters.value is None:
        return {}
    names = parameters.type.field_names  # type: ignore[attr-defined] # a struct, checked by the builtin
    return dict(zip(names, parameters.value, strict=True))


def _origin(x: int, y: int, node: tree.Node, frame: Frame) -> Note:
    return Note(f"the code of PE ({x}, {y}) is set here", frame.span(node))
