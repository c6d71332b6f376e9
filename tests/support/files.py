"""Files that another process waits for."""

from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a file so that whoever looks finds all of it or nothing."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_text(text)
    partial.replace(path)
