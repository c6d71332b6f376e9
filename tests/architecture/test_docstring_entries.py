"""An entry of a docstring says more than the name and the type that stand in the code.

An argument or attribute whose entry would only repeat them has none: `clock: Clock` needs no
"The clock.". What an entry is for are units, shapes, what None means, and what a name leaves open.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("appliance", "workers", "csctl")
SHORT = 5
"""Longer entries are not looked at."""
SECTION = re.compile(r"^(\s+)(Args|Attributes):$")
ENTRY = re.compile(r"^(\s+)(\w+): (.+)$")
SAYS_MORE = re.compile(r"\d|None|[Bb]ytes|[Ss]econds|[Ss]hape|GiB|MiB|[Ee]mpty|[Tt]okens|[Tt]ext")
FILLERS = frozenset(
    (
        "the", "a", "an", "of", "its", "it", "is", "in", "to", "for", "by", "that", "this",
        "as", "at", "on", "or", "and", "be", "are", "which", "what", "one", "own", "their",
        "them", "all", "each", "source", "time", "itself",
    )
)  # fmt: skip
ENDINGS = ("ies", "ing", "es", "ed", "s", "e")

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Entry(NamedTuple):
    """An entry that repeats: the numbers of its line and of its section's, from 1."""

    line: int
    section: int
    text: str


def repeating(source: str) -> Iterator[Entry]:
    """Yield the entries of a module that say nothing."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented) and (doc := _docstring(node)) is not None:
            types, last = _types(node), doc.end_lineno or 0
            for section in range(doc.lineno, last + 1):
                if head := SECTION.match(lines[section - 1]):
                    for line in _entries(lines, section, last, len(head[1]) + 4):
                        found = ENTRY.match(lines[line - 1])
                        if found and found[2] in types and _repeats(*found.groups()[1:], types):
                            yield Entry(line, section, f"{found[2]}: {found[3]}")


def _docstring(node: Documented) -> ast.Constant | None:
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first.value if is_text and isinstance(first.value.value, str) else None


def _types(node: Documented) -> dict[str, str]:
    """Return the types of arguments, of attributes and of properties, by name."""
    if not isinstance(node, ast.ClassDef):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return {each.arg: ast.unparse(each.annotation or ast.Constant("")) for each in arguments}
    found: dict[str, str] = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = ast.unparse(each.annotation)
        elif isinstance(each, ast.FunctionDef):
            found |= _types(each) if each.name == "__init__" else {}
            found.setdefault(each.name, ast.unparse(each.returns or ast.Constant("")))
    return found


def _entries(lines: list[str], section: int, last: int, indent: int) -> Iterator[int]:
    """Yield the lines of a section's entries that take one line."""
    for line in range(section + 1, last + 1):
        depth = len(lines[line - 1]) - len(lines[line - 1].lstrip())
        if not lines[line - 1].strip() or depth < indent:
            return
        following = lines[line] if line < len(lines) else ""
        goes_on = following.strip() and len(following) - len(following.lstrip()) > indent
        if depth == indent and not goes_on:
            yield line


def _repeats(name: str, text: str, types: dict[str, str]) -> bool:
    if len(text.split()) >= SHORT or SAYS_MORE.search(text):
        return False
    return _words(text) <= _words(name) | _words(types[name])


def _words(text: str) -> set[str]:
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower()
    return {_stem(word) for word in re.findall(r"[a-z]+", apart)} - set(map(_stem, FILLERS))


def _stem(word: str) -> str:
    ending = next((e for e in ENDINGS if word.endswith(e) and len(word) - len(e) > 2), "")
    return word.removesuffix(ending)


def test_no_entry_repeats_the_name_and_the_type():
    found = [
        f"{path.relative_to(ROOT)}:{entry.line}: {entry.text}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for entry in repeating(path.read_text())
    ]
    assert found == []


def test_what_says_a_unit_or_more_than_the_name_stays():
    source = '''
class Pod:
    """A pod.

    Args:
        name: Its name.
        clock: Source of time.
        size: Bytes.
        owner: Who pays.
    """

    def __init__(self, name: str, clock: Clock, size: int, owner: str) -> None: ...
'''
    assert [entry.text for entry in repeating(source)] == [
        "name: Its name.",
        "clock: Source of time.",
    ]
