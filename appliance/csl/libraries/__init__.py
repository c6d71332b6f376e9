"""The libraries that programs import as `<name>`: CSL of our own, shipped with the compiler."""

from importlib import resources


def library_source(name: str) -> str | None:
    """The text of a library such as `memcpy/memcpy`; None if there is none."""
    parts = name.split("/")
    if not all(part.replace("_", "").isalnum() for part in parts):
        return None
    path = resources.files(__name__).joinpath(*parts[:-1], parts[-1] + ".csl")
    return path.read_text(encoding="utf-8") if path.is_file() else None
