"""What each builtin takes and does, in our words."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class BuiltinPage:
    """A builtin.

    Attributes:
        name: Without `@`.
        signature: As one writes a call, with the type of its value behind.
        text: What it does.
    """

    name: str
    signature: str
    text: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """Its arguments as the signature has them."""
        inside = self.signature.partition("(")[2].rpartition(")")[0]
        return tuple(part.strip() for part in inside.split(",") if part.strip())


@functools.cache
def builtin_pages() -> Mapping[str, BuiltinPage]:
    """Return all builtins by name."""
    text = (resources.files(__package__) / "builtin_pages.txt").read_text(encoding="utf-8")
    return {page.name: page for page in map(_page, text.strip().split("\n\n"))}


def _page(entry: str) -> BuiltinPage:
    signature, _, text = entry.partition("\n")
    name = signature[1 : signature.index("(")]
    return BuiltinPage(name, signature.strip(), text.strip())
