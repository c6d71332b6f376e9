"""HTTP/1.1 without what two servers may read differently.

Before us there may be another server, a proxy of the site, that decides by what it reads whether a
request may pass. Where the two could disagree about the end of a request, about a header or about
the host, the second one would find requests that the first has not seen. h11 reads more than it
must; what is refused here no client sends (RFC 9112, 2.2, 3.2, 5.2 and 6.1).
"""

import re
from typing import Any

import h11

_END_OF_HEAD = b"\r\n\r\n"
_LENIENT = re.compile(rb"(?<!\r)\n|\r\n[ \t]")
"""A line that ends without a carriage return, or that goes on in the next one."""
_FRAMINGS = frozenset((b"content-length", b"transfer-encoding"))


class StrictConnection(h11.Connection):
    """The server's side of a connection, with no request that can be read in two ways."""

    # `Any`: as h11 declares it, whose events have no common class.
    def next_event(self) -> Any:  # noqa: ANN401 - see above
        """Return what comes next; raises `h11.RemoteProtocolError` for what is refused."""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(_END_OF_HEAD)[0]
            if _LENIENT.search(head) is not None:
                raise h11.RemoteProtocolError("A line of the head ends in no plain way.")
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check(event)
        return event


def _check(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if set(names) >= _FRAMINGS:
        raise h11.RemoteProtocolError("The request says its length in two ways.")
    hosts = [value for name, value in request.headers if name == b"host"]
    if any(each.split() != [each] for each in hosts if each):
        raise h11.RemoteProtocolError("The request's host is not one word.")
