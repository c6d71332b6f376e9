"""The libraries that programs import as `<name>`: CSL of our own, shipped with the compiler."""

import functools
from importlib import resources

_OF_LIBRARIES = ("kernels", "host_port")
"""Folders that only libraries import."""


@functools.cache
def library_names() -> tuple[str, ...]:
    """The names of the libraries that programs import, such as `memcpy/memcpy`."""
    found: list[str] = []
    for each in resources.files(__name__).iterdir():
        if each.name.endswith(".csl"):
            found.append(each.name.removesuffix(".csl"))
        elif each.is_dir() and each.name not in _OF_LIBRARIES:
            inner = (file.name for file in each.iterdir() if file.name.endswith(".csl"))
            found += [f"{each.name}/{name.removesuffix('.csl')}" for name in inner]
    return tuple(sorted(found))


def library_source(name: str) -> str | None:
    """The text of a library such as `memcpy/memcpy`; None if there is none."""
    parts = name.split("/")
    if not all(part.replace("_", "").isalnum() for part in parts):
        return None
    path = resources.files(__name__).joinpath(*parts[:-1], parts[-1] + ".csl")
    return path.read_text(encoding="utf-8") if path.is_file() else None
