"""The rows of the tables of sockets, internal methods and files."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerMethod:
    """A gRPC method between the appliance's own processes.

    Attributes:
        listener: Name of the socket that it is served at; see `sockets`.
        max_bytes: Size of one message.
    """

    listener: str
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """Something that listens.

    Attributes:
        name: Short name.
        place: Address or path, with parts in capitals that differ.
        module: Module that opens it.
        speaks: Protocol.
        who: Who may use it.
        check: What keeps everybody else out.
        size_limit: Largest thing read before and after that check.
        cost_limit: What bounds the number and the time of connections.
    """

    name: str
    place: str
    module: str
    speaks: str
    who: str
    check: str
    size_limit: str
    cost_limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file or directory that the appliance makes.

    Attributes:
        place: Path beneath the data or the runtime directory, with parts in capitals that differ.
        module: Module that makes it.
        holds: What is in it.
        mode: Permissions; what is allowed beyond the owner is said in `who`.
        who: Who may read or write it.
        is_secret: Whether reading it gives rights.
    """

    place: str
    module: str
    holds: str
    mode: int
    who: str
    is_secret: bool = False
