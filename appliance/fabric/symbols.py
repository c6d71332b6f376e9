"""Names that the host uses: exported pointers, functions, and symbols in memory."""

from contextlib import suppress
from dataclasses import dataclass

from appliance.csl.program import CodeClass, Export, Program, RpcSymbol, Variable
from appliance.fabric.errors import UnknownSymbolError


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Finds what the host names."""

    program: Program

    def rpc(self, symbol: str | int, kind: str) -> RpcSymbol:
        """Return an exported name by name or id.

        Raises:
            UnknownSymbolError: There is none of this kind.
        """
        for entry in self.program.symbols:
            if entry.kind == kind and symbol in (entry.name, entry.id):
                return entry
        names = ", ".join(entry.name for entry in self.program.symbols if entry.kind == kind)
        what = "data" if kind == "Var" else "function"
        raise UnknownSymbolError(
            f"The program exports no {what} {symbol!r}.",
            hint=f"It exports {names}." if names else "It exports nothing of this kind.",
        )

    def export(self, code_class: int, name: str) -> Export:
        """Return the export of a code class by name.

        Raises:
            UnknownSymbolError: It exports nothing under it.
        """
        source = self.program.classes[code_class]
        for entry in source.exports:
            if entry.name == name:
                return entry
        raise UnknownSymbolError(
            f"The PEs of {source.file} do not export {name!r}.",
            hint="Call @export_symbol in a comptime block of that file, or leave those PEs out.",
        )

    def variable(self, code_class: int, name: str) -> Variable:
        """Return a variable by the name that debuggers use, or by its own.

        Raises:
            UnknownSymbolError: The class has no such variable.
        """
        source = self.program.classes[code_class]
        for symbol in source.symbols:
            if symbol.name == name:
                return source.variables[symbol.variable]
        for variable in source.variables:
            if name in (variable.name, variable.name.rpartition(".")[2]):
                return variable
        raise UnknownSymbolError(
            f"The PEs of {source.file} have no symbol {name!r} in memory.",
            hint=f"There are {', '.join(_names(source)) or 'none'}.",
        )

    def field(self, code_class: int, name: str) -> tuple[Variable, str]:
        """Return a variable and the field of it that a name with points means, or ''.

        Raises:
            UnknownSymbolError: The class has no such variable.
        """
        front, field = name, ""
        while "." in front:
            with suppress(UnknownSymbolError):
                return self.variable(code_class, front), field
            front, _, last = front.rpartition(".")
            field = f".{last}{field}"
        with suppress(UnknownSymbolError):
            return self.variable(code_class, front), field
        return self.variable(code_class, name), ""


def _names(source: CodeClass) -> list[str]:
    symbols = {symbol.name for symbol in source.symbols}
    return sorted(symbols | {variable.name for variable in source.variables})[:20]
