"""One servicer of gRPC from several parts, each of which answers what belongs together."""

from typing import TypeVar

Servicer = TypeVar("Servicer")


def joined(base: type[Servicer], *parts: object) -> Servicer:
    """Return a servicer whose methods are those of its parts.

    What none of them has stays the generated base's, which refuses it.

    Args:
        base: The generated class; its public methods are the service's.
        parts: Objects with some of these methods; no two have the same.

    Raises:
        TypeError: Two parts have the same method.
    """
    names = [name for name in vars(base) if not name.startswith("_")]
    servicer = base()
    for name in names:
        found = [getattr(part, name) for part in parts if hasattr(part, name)]
        if len(found) > 1:
            raise TypeError(f"{base.__name__}: {name} is answered by {len(found)} parts.")
        if found:
            setattr(servicer, name, found[0])
    return servicer
