"""Compiling sources that are written in the test."""

from dataclasses import dataclass, field

from appliance.csl.compiler import Compilation, compile_program
from appliance.csl.options import CompileOptions
from appliance.csl.program import Block, CodeClass, Function, Instruction, Program

LAYOUT = """
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
  @export_name("main", fn () void);
}
"""


@dataclass(frozen=True)
class Files:
    """A loader over texts by path."""

    texts: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        return self.texts.get(path)


def compile_files(texts: dict[str, str], **options: object) -> Compilation:
    return compile_program("layout.csl", CompileOptions(**options), Files(texts))  # type: ignore[arg-type]


def compile_pe(pe: str, **options: object) -> Compilation:
    """Compiles the code of one PE whose layout exports `main`."""
    return compile_files({"layout.csl": LAYOUT, "pe.csl": pe}, **options)


def code_of(pe: str, **options: object) -> CodeClass:
    compilation = compile_pe(pe, **options)
    assert compilation.program is not None, compilation.render()
    return compilation.program.classes[0]


def program_of(texts: dict[str, str], **options: object) -> Program:
    compilation = compile_files(texts, **options)
    assert compilation.program is not None, compilation.render()
    return compilation.program


def main_of(body: str, top: str = "", **options: object) -> Function:
    """The function `main` with a body, behind top-level declarations."""
    pe = f"{top}\nfn main() void {{\n{body}\n}}\ncomptime {{ @export_symbol(main); }}\n"
    code = code_of(pe, **options)
    return next(function for function in code.functions if function.name == "main")


def instructions(function: Function) -> list[Instruction]:
    return [item for block in function.blocks for item in block.instructions]


def blocks(function: Function) -> tuple[Block, ...]:
    return function.blocks


def errors_of(pe: str, **options: object) -> list[tuple[int, int, str]]:
    """Line, column and text of every error in the code of one PE."""
    compilation = compile_pe(pe, **options)
    assert compilation.program is None
    return [(found.line, found.column, found.text) for found in compilation.diagnostics]


def printed(body: str, top: str = "", **options: object) -> list[str]:
    """What `@comptime_print` says in a comptime block."""
    compilation = compile_pe(f"{top}\ncomptime {{\n{body}\n}}\n", **options)
    assert compilation.program is not None, compilation.render()
    return [line.split(": ", 1)[1] for line in compilation.printed]
