"""Compiling sources that are written in the test."""

from dataclasses import dataclass, field

from appliance.csl.compiler import Compilation, compile_program
from appliance.csl.diagnostics import Diagnostic, Severity
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


def check_error(marked: str, text: str, *, body: bool = False, **options: object) -> None:
    """Asserts that a PE's code has an error at the mark `$$` that says a text.

    `body` puts the source into the function `main`.
    """
    if body:
        marked = f"fn main() void {{\n{marked}\n}}\ncomptime {{ @export_symbol(main); }}\n"
    check_error_in({"layout.csl": LAYOUT, "pe.csl": marked}, text, **options)


def check_error_in(marked: dict[str, str], text: str, **options: object) -> None:
    """Asserts that files have an error at the mark `$$` in one of them; without one, nowhere."""
    compilation, found = _at_the_mark(marked, text, **options)
    assert errors(found), f"no error with {text!r} there; found\n{compilation.render()}"
    assert compilation.program is None


def check_warning_in(marked: dict[str, str], text: str, **options: object) -> None:
    """Asserts that files have a warning at the mark `$$`, and that they compile."""
    compilation, found = _at_the_mark(marked, text, **options)
    assert found, f"no warning with {text!r} there; found\n{compilation.render()}"
    assert compilation.program is not None, compilation.render()


def errors(found: list[Diagnostic]) -> list[Diagnostic]:
    """The errors among diagnostics."""
    return [item for item in found if item.severity is Severity.ERROR]


def _at_the_mark(
    marked: dict[str, str], text: str, **options: object
) -> tuple[Compilation, list[Diagnostic]]:
    texts, wanted = {}, ("", 0, 0)
    for path, source in marked.items():
        before, mark, after = source.partition("$$")
        texts[path] = before + after
        if mark:
            column = len(before) - (before.rfind("\n") + 1) + 1
            wanted = (path, before.count("\n") + 1, column)
    compilation = compile_files(texts, **options)
    found = [
        item for item in compilation.diagnostics if wanted in _places(item) and text in item.text
    ]
    return compilation, seen(found)


def _places(item: Diagnostic) -> list[tuple[str, int, int]]:
    """The place of a diagnostic; of one in a library also the calls that led there."""
    spans = [item.span]
    if item.span is not None and item.span.source.path.startswith("<"):
        spans += [note.span for note in item.notes]
    return [
        (span.source.path, *span.source.line_column(span.start)) if span else ("", 0, 0)
        for span in spans
    ]


def seen(found: list[Diagnostic]) -> list[Diagnostic]:
    """Returns what was looked at; `csl_diagnostics` counts it."""
    return found


def check_right(source: str, *, body: bool = False, **options: object) -> CodeClass:
    """Asserts that a PE's code compiles."""
    if body:
        source = f"fn main() void {{\n{source}\n}}\ncomptime {{ @export_symbol(main); }}\n"
    return code_of(source, **options)
