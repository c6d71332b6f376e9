"""What travels on a connection after its handshake: frames of 24 bytes, some with a payload.

Every frame carries a checksum of its own fields. A payload is followed by the XXH3 checksum of its
bytes: TCP's own 16-bit sum lets through about one damaged segment in 65,536, which a job that moves
terabytes will meet.

| frame       | number                | amount                           | payload            |
|-------------|-----------------------|----------------------------------|--------------------|
| `DATA`      | sequence number       | bytes of the payload             | a slot's used bytes|
| `END`       | sequence number       |                                  |                    |
| `PROGRESS`  | messages received     | messages that there is room for  |                    |
| `PING`      |                       |                                  |                    |
| `ABANDONED` |                       |                                  |                    |
| `REQUEST`   |                       | bytes of the payload             | a store's request  |
| `REPLY`     |                       | bytes of the payload             | a store's answer   |
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

_FIELDS = struct.Struct("<BxxxQQ")
_SUM = struct.Struct("<I")
FRAME_BYTES = _FIELDS.size + _SUM.size
CHECKSUM = struct.Struct("<Q")
"""What follows a payload."""


class ChannelBrokenError(ConnectionError):
    """A connection is of no further use; a new one may be."""


class Kind(IntEnum):
    """What a frame says."""

    DATA = 1
    END = 2
    PROGRESS = 3
    PING = 4
    ABANDONED = 5
    REQUEST = 6
    REPLY = 7


_KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A decoded frame.

    Attributes:
        kind: What it says.
        number: See the module's table.
        amount: Likewise.
    """

    kind: Kind
    number: int = 0
    amount: int = 0

    def encode(self) -> bytes:
        """Return the frame's bytes."""
        fields = _FIELDS.pack(self.kind, self.number, self.amount)
        return fields + _SUM.pack(zlib.crc32(fields))


def decode(data: bytes) -> Frame:
    """Return the frame that `encode` made bytes of.

    Raises:
        ChannelBrokenError: The bytes are damaged, or no frame.
    """
    fields, sum_ = data[: _FIELDS.size], data[_FIELDS.size :]
    kind, number, amount = _FIELDS.unpack(fields)
    if _SUM.pack(zlib.crc32(fields)) != sum_ or kind not in _KINDS:
        raise ChannelBrokenError(f"a frame arrived damaged: {data.hex()}")
    return Frame(kind=Kind(kind), number=number, amount=amount)
