"""What two servers may read differently is refused, and what clients send is not."""

import h11
import pytest

from appliance.api.strict_http import StrictConnection

HOST = b"Host: localhost:8080\r\n"
GET, POST = b"GET / HTTP/1.1\r\n" + HOST, b"POST / HTTP/1.1\r\n" + HOST


def read(data, *, step):
    """Return what a connection finds that gets so many bytes at a time; answers each request."""
    connection, found = StrictConnection(h11.SERVER), []
    for start in range(0, len(data), step):
        connection.receive_data(data[start : start + step])
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if event is h11.PAUSED:
                break
            found.append(type(event))
            if isinstance(event, h11.EndOfMessage) and connection.their_state is h11.DONE:
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
    return found


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        POST + b"Content-Length: +1\r\n\r\na",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        GET + b"X-A: b\r\n c\r\n\r\n",
        GET + b"X-A: b\r\n\tc\r\n\r\n",
        GET + b"X-A: b\n\r\n",
        GET + b"X-A: b\r\n\n",
        GET + b"X-A: b\rX-C: d\r\n\r\n",
        b"GET / HTTP/1.1\n" + HOST + b"\r\n",
        GET + HOST + b"\r\n",
        GET + b"Host: elsewhere\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost elsewhere\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n elsewhere\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_first_or_later(request_, step):
    for before in (b"", GET + b"\r\n", POST + b"Content-Length: 3\r\n\r\n\na\n"):
        with pytest.raises(h11.RemoteProtocolError):
            read(before + request_ + GET + b"\r\n", step=step)


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    "request_",
    [
        GET + b"\r\n",
        GET + b"X-Empty:\r\nX-A: b c\r\n\r\n",
        POST + b"Content-Length: 5\r\n\r\n\n\r\n b",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\n\n\n \r\n0\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ],
)
def test_what_clients_send_is_read(request_, step):
    found = read(request_, step=step)
    assert found[0] is h11.Request
    assert found[-1] is h11.EndOfMessage
