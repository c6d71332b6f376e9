"""Named segments that one process owns and others attach: weights, snapshots, persistent tensors.

The owner serves a Unix socket; a client asks for a segment by name and gets its memory and its
layout. The layout of thousands of tensors outgrows a socket message, so it travels as a segment of
its own. Readiness is not the store's business: a ring's doorbells or a control message say when
which bytes may be read.
"""

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock, SystemClock
from appliance.core.errors import InternalError, NotFoundError, StreamClosedError, WscError
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.closing import ClosedOnExit
from appliance.streams.doorbell import Bell, Deadline, listen, unlink_socket, wait_readable
from appliance.streams.handshake import (
    close_all,
    introduce,
    own_label,
    receive_message,
    send_message,
)
from appliance.streams.protocol import Piece
from appliance.streams.segment import (
    create_file_segment,
    create_segment,
    map_segment,
    segment_of_bytes,
)
from appliance.streams.slot_layout import LayoutItem, SlotLayout

logger = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    memory: int
    layout: int
    content: NDArray[np.uint8]

    def close(self) -> None:
        close_all([self.memory, self.layout])


class StoreServer(ClosedOnExit):
    """Owns segments and hands them to whoever connects.

    Args:
        address: Path of the Unix socket; listens at once.
        owner: How clients' errors name this end.
    """

    def __init__(self, address: str, *, owner: str = "", clock: Clock | None = None) -> None:
        self._address, self._owner = address, owner or own_label()
        self._clock = clock or SystemClock()
        self._listener = listen(address)
        self._segments: dict[str, _Segment] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._bell = Bell()
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()

    def add_segment(
        self, name: str, layout: SlotLayout, *, directory: Path | None = None
    ) -> NDArray[np.uint8]:
        """Create a segment and return its bytes.

        Args:
            name: The segment's name.
            layout: Where each tensor lies in it.
            directory: Where the file that holds it is made; None holds it in memory.

        Raises:
            InternalError: A segment of that name exists, or the store is closed.
            ClusterError: There is no room in the directory.
        """
        items = json.dumps([_item_fields(item) for item in layout.items]).encode()
        if directory is None:
            descriptor = create_segment(name, layout.num_bytes)
        else:
            descriptor = create_file_segment(directory, name, layout.num_bytes)
        memory = map_segment(descriptor)
        segment = _Segment(
            memory=descriptor,
            layout=segment_of_bytes(f"{name}-layout", items),
            content=memory,
        )
        with self._lock:
            if self._is_closed or name in self._segments:
                segment.close()
                raise InternalError(f"Segment {name!r} exists already, or the store is closed.")
            self._segments[name] = segment
        return memory

    def descriptor(self, name: str) -> int:
        """Return what holds a segment; it is valid until the segment is removed.

        Raises:
            NotFoundError: There is no segment of that name.
        """
        with self._lock:
            return self._find(name).memory

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def open_segment(self, name: str) -> tuple[NDArray[np.uint8], bytes]:
        """Return a segment's bytes and the JSON text of its layout.

        Raises:
            NotFoundError: There is no segment of that name.
        """
        with self._lock:
            segment = self._find(name)
            return segment.content, map_segment(segment.layout).tobytes()

    def remove_segment(self, name: str) -> None:
        """Forget a segment; its memory is freed when the last process unmaps it.

        Raises:
            NotFoundError: There is no segment of that name.
        """
        with self._lock:
            self._find(name).close()
            del self._segments[name]

    def _find(self, name: str) -> _Segment:
        if name not in self._segments:
            raise NotFoundError(f"The store of {self._owner} has no segment {name!r}.")
        return self._segments[name]

    def close(self) -> None:
        """Forget every segment and stop serving."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._bell.ring()
        self._thread.join()
        with self._lock:
            for segment in self._segments.values():
                segment.close()
            self._segments.clear()
        self._bell.close()

    def _serve(self) -> None:
        """Answer one request for each connection; body of the store's thread."""
        try:
            while True:
                wait_readable(self._listener, self._bell, Deadline(self._clock, None))
                if self._is_closed:
                    return
                self._serve_one()
        finally:
            self._listener.close()
            unlink_socket(self._address)

    def _serve_one(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        with connection:
            connection.settimeout(_HANDSHAKE_SECONDS)
            try:
                self._answer(connection)
            except (WscError, OSError) as error:
                logger.warning("Store request failed", extra={"reason": str(error)})

    def _answer(self, connection: socket.socket) -> None:
        request, descriptors = receive_message(connection, peer="A store client")
        close_all(descriptors)
        name = request.get("segment")
        with self._lock:
            segment = self._segments.get(str(name)) if name is not None else None
            held = [] if segment is None else [os.dup(segment.memory), os.dup(segment.layout)]
        try:
            answer = {"label": self._owner, "found": segment is not None}
            send_message(connection, answer, descriptors=held)
        finally:
            close_all(held)


class StoreClient(ClosedOnExit):
    """Attaches segments of a store that another process owns; see `attach_store`."""

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        label: str,
        is_read_only: bool,
        clock: Clock,
    ) -> None:
        self._address, self._label, self._clock = address, label, clock
        self._timeout_seconds, self._is_read_only = timeout_seconds, is_read_only
        self._attached: dict[str, tuple[NDArray[np.uint8], SlotLayout]] = {}
        self._lock = threading.Lock()

    def attach(self, name: str) -> NDArray[np.uint8]:
        """Return a segment's bytes, mapped, and writable unless the client only reads.

        Raises:
            NotFoundError: The store has no such segment.
            StreamClosedError: The store does not answer.
        """
        return self._segment(name)[0]

    def attach_to_write(self, name: str) -> NDArray[np.uint8]:
        """Return a segment's bytes: what is written there needs no `write_back`."""
        return self.attach(name)

    def write_back(self, name: str, items: Iterable[LayoutItem]) -> None:
        """Do nothing: `attach_to_write` gave out the segment itself."""

    def read(self, pieces: Sequence[Piece]) -> None:
        """Copy runs of bytes as they are now; raises as `attach` does."""
        for piece in pieces:
            source = self.attach(piece.segment)
            piece.target[:] = source[piece.source : piece.source + len(piece.target)]

    def fetch(self, name: str, start: int, num_bytes: int) -> NDArray[np.uint8]:
        """Return a run of a segment's bytes, where they lie; raises as `attach` does."""
        return self.attach(name)[start : start + num_bytes]

    def layout(self, name: str) -> SlotLayout:
        """Return a segment's layout; raises as `attach` does."""
        return self._segment(name)[1]

    def detach(self, name: str) -> None:
        """Forget a segment; it is unmapped when the last view of it dies."""
        with self._lock:
            self._attached.pop(name, None)

    def close(self) -> None:
        """Forget every segment."""
        with self._lock:
            self._attached.clear()

    def _segment(self, name: str) -> tuple[NDArray[np.uint8], SlotLayout]:
        with self._lock:
            if name not in self._attached:
                self._attached[name] = self._fetch(name)
            return self._attached[name]

    def _fetch(self, name: str) -> tuple[NDArray[np.uint8], SlotLayout]:
        connection, answer, descriptors = introduce(
            self._address,
            {"segment": name, "label": self._label},
            what=f"the store's segment {name!r}",
            timeout_seconds=self._timeout_seconds,
            clock=self._clock,
        )
        with connection, contextlib.ExitStack() as stack:
            stack.callback(close_all, descriptors)
            if not answer["found"]:
                raise NotFoundError(f"The store of {answer['label']} has no segment {name!r}.")
            if len(descriptors) != 2:
                raise StreamClosedError(
                    f"The store of {answer['label']} sent {len(descriptors)} descriptors for "
                    f"segment {name!r}, not 2; this process may be out of file descriptors."
                )
            memory = map_segment(descriptors[0], is_read_only=self._is_read_only)
            layout = map_segment(descriptors[1], is_read_only=True)
        return memory, parse_layout(layout.tobytes(), num_bytes=len(memory))


def attach_store(
    address: str,
    *,
    timeout_seconds: float = 10.0,
    client: str = "",
    is_read_only: bool = False,
    clock: Clock | None = None,
) -> StoreClient:
    """Return a client of the store at `address`; it connects when a segment is attached.

    Args:
        address: Path of the store's Unix socket.
        timeout_seconds: How long `attach` waits for the store to listen and to answer.
        client: How the store's log names this end, as in a pod's name.
        is_read_only: Whether segments are mapped for reading only.
    """
    return StoreClient(
        address,
        timeout_seconds=timeout_seconds,
        label=client or own_label(),
        is_read_only=is_read_only,
        clock=clock or SystemClock(),
    )


def parse_layout(text: bytes, *, num_bytes: int) -> SlotLayout:
    """Return the layout that a store tells as JSON text.

    Args:
        text: Fields of each tensor; empty for none.
        num_bytes: Size of the segment.
    """
    items = tuple(_layout_item(*item) for item in json.loads(text or b"[]"))
    return SlotLayout(items=items, num_bytes=num_bytes)


def _item_fields(item: LayoutItem) -> tuple[str, tuple[int, ...], str, int]:
    return item.name, item.type.shape, item.type.dtype.value, item.offset


def _layout_item(name: str, shape: list[int], dtype: str, offset: int) -> LayoutItem:
    return LayoutItem(name=name, type=TensorType(tuple(shape), DType(dtype)), offset=offset)
