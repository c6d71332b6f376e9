"""One-token changes of the product's functions, and a seeded sample of them."""

import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("appliance/scheduler", "appliance/compiler", "appliance/coordinator", "appliance/csl"),
    *("appliance/wafer", "appliance/management/access", "appliance/storage", "appliance/core"),
    *("appliance/streams", "appliance/fabric", "workers/memoryx", "workers/swarmx", "workers/csx"),
)
"""Where defects are made. What decides purely comes first."""
_CHANGES = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "//": "*",
    "%": "*",
    "and": "or",
    "or": "and",
    "not": "",
    "is": "is not",
    "in": "not in",
    "True": "False",
    "False": "True",
    "&": "|",
    "|": "&",
    "+=": "-=",
    "-=": "+=",
}
_C_CHANGES = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "%": "*",
    "<<": ">>",
    ">>": "<<",
    "+=": "-=",
}
_C_TOKEN = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||<<|>>|\+=|[<>+%])(?= )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A file of the product with one token changed.

    Attributes:
        path: The file, from the root of the repository.
        line: Of the token, from 1.
        column: Of the token, from 0.
        old: The token.
        new: What stands in its place.
    """

    path: str
    line: int
    column: int
    old: str
    new: str

    @property
    def text(self) -> str:
        """Its line as it is."""
        return (ROOT / self.path).read_text().splitlines()[self.line - 1].strip()

    def source(self) -> str:
        """Return the whole file with the change."""
        lines = (ROOT / self.path).read_text().splitlines(keepends=True)
        line = lines[self.line - 1]
        end = self.column + len(self.old)
        lines[self.line - 1] = f"{line[: self.column]}{self.new}{line[end:]}"
        return "".join(lines)

    @property
    def place(self) -> tuple[str, int]:
        """Its file and line."""
        return self.path, self.line

    def is_program(self) -> bool:
        """Return whether Python reads it; of C the compiler says so."""
        try:
            if self.path.endswith(".py"):
                ast.parse(self.source())
        except SyntaxError:
            return False
        return True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


def package_of(path: str) -> str:
    """Return the package of a file among those where defects are made."""
    return next(package for package in PACKAGES if path.startswith(f"{package}/"))


def own_tests(path: str) -> str:
    """Return the folder of the unit tests of a file's package."""
    package = Path(package_of(path))
    name = package.parent.name if package.parent.name == "management" else package.name
    return f"tests/unit/{name}/"


def sample(packages: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Draw mutants, as many of each package as of any other, each at another line."""
    chance = random.Random(seed)
    found: list[Mutant] = []
    pools = {package: list(_mutants(package)) for package in packages}
    for turn in range(number):
        pool = pools[packages[turn % len(packages)]]
        mutant = chance.choice(pool)
        while not mutant.is_program() or mutant.place in {each.place for each in found}:
            mutant = chance.choice(pool)
        found.append(mutant)
    return found


def at(place: str) -> list[Mutant]:
    """Return the mutants of one line, named as `path:line`."""
    path, _, line = place.rpartition(":")
    made = _of_c(ROOT / path) if path.endswith((".c", ".h")) else _of_python(ROOT / path)
    return [mutant for mutant in made if mutant.line == int(line) and mutant.is_program()]


def _mutants(package: str) -> Iterator[Mutant]:
    folder = ROOT / package
    for path in sorted(folder.rglob("*.py")):
        if "migrations" not in path.parts:  # what a database has is compared with them
            yield from _of_python(path)
    for path in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")]):
        yield from _of_c(path)


def _of_python(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    lines = _lines_of_functions(ast.parse(text))
    name = str(path.relative_to(ROOT))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        new = _changed(token)
        if line not in lines or new is None:
            continue
        yield Mutant(path=name, line=line, column=column, old=token.string, new=new)


def _changed(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NUMBER and token.string.isdecimal():
        return str(int(token.string) + 1)
    if token.type in (tokenize.OP, tokenize.NAME):
        return _CHANGES.get(token.string)
    return None


def _lines_of_functions(module: ast.Module) -> set[int]:
    """Return the lines of what functions do: no signatures, docstrings and loops over imports."""
    found: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[ast.get_docstring(node) is not None :]
            if body and not _is_protocol(body):
                found.update(range(body[0].lineno, (node.end_lineno or body[0].lineno) + 1))
    for node in ast.walk(module):  # what is declared, not done
        if isinstance(node, ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef):
            declared = [getattr(node, "annotation", None), *getattr(node, "decorator_list", [])]
            for part in filter(None, declared):
                found.difference_update(range(part.lineno, (part.end_lineno or 0) + 1))
    return found


def _is_protocol(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def _of_c(path: Path) -> Iterator[Mutant]:
    name = str(path.relative_to(ROOT))
    is_comment = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        code = line.partition("//")[0]
        if "/*" in code:
            is_comment = "*/" not in code
            code = code.partition("/*")[0]
        elif is_comment:
            is_comment = "*/" not in code
            continue
        if code.startswith(("#", "static inline", "typedef")):
            continue
        for match in _C_TOKEN.finditer(code):
            old = match[0]
            new = _C_CHANGES[old]
            yield Mutant(path=name, line=number, column=match.start(), old=old, new=new)
