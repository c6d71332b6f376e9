"""A TCP link between two ends that can be cut, held up and damaged."""

import contextlib
import select
import selectors
import socket
import threading


class FaultyLink:
    """Passes bytes on between clients and a server, and does harm when told to.

    Args:
        address: host:port of the server.
        options: What `FaultyLink` does by itself: `cut_every`, bytes after which a connection is
            closed, and `damage_at`, positions (counted over all connections, from the server) of
            bytes that are changed.
    """

    def __init__(self, address, *, cut_every=None, damage_at=()):
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._cut_every, self._damage_at = cut_every, sorted(damage_at)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._lock = threading.Lock()
        self._pairs = []
        self._is_held = self._is_closed = self._is_down = self._is_swallowing = False
        self.num_connections = self.num_cuts = self.num_bytes = 0
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self):
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self):
        """Close every connection now."""
        self._tell("cut")

    def hold(self):
        """Pass nothing on any more, but close nothing."""
        self._tell("hold")

    def swallow(self):
        """Lose what the server says from now on, its end too, until the connections are cut."""
        self._tell("swallow")

    def go_on(self):
        self._tell("go_on")

    def wait_for_knock(self, seconds):
        """Wait until a client tries to connect, while the link is held."""
        assert select.select([self._listener], [], [], seconds)[0], "nobody has tried to connect"

    def take_down(self):
        """Close every connection and refuse new ones."""
        self._tell("down")

    def bring_up(self):
        """Take new connections again."""
        self._tell("up")

    def close(self):
        self._tell("close")
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _tell(self, word):
        self._wake.send(word.encode().ljust(8))

    def _run(self):
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while not self._is_closed:
            for key, _ in selector.select():
                if key.fileobj is self._listener:
                    self._accept(selector)
                elif key.fileobj is self._woken:
                    self._obey(selector, self._woken.recv(8).decode().strip())
                elif key.fileobj.fileno() >= 0 and not self._is_held:
                    self._pass_on(selector, key.fileobj, *key.data)
            if self._is_held:
                self._obey(selector, self._woken.recv(8).decode().strip())
        self._cut_all(selector)
        for end in (self._listener, self._wake, self._woken):
            end.close()
        selector.close()

    def _obey(self, selector, word):
        self._is_held = word == "hold"
        self._is_down = word == "down" or (self._is_down and word != "up")
        self._is_closed |= word == "close"
        self._is_swallowing |= word == "swallow"
        if word in ("cut", "down"):
            self._is_swallowing = False
            self._cut_all(selector)

    def _accept(self, selector):
        client, _ = self._listener.accept()
        if self._is_down:
            client.close()
            return
        try:
            server = socket.create_connection(self._server)
        except OSError:  # the server is away
            client.close()
            return
        self.num_connections += 1
        self._pairs.append((client, server))
        count = [0]
        for source, target, is_from_server in ((client, server, False), (server, client, True)):
            selector.register(source, selectors.EVENT_READ, (target, is_from_server, count))

    def _pass_on(self, selector, source, target, is_from_server, count):
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(1 << 16)
        if is_from_server and self._is_swallowing:
            if not data:
                selector.unregister(source)  # its end is lost, too
            return
        if not data:
            self._cut_one(selector, source, target)
            return
        if is_from_server:
            data = self._damaged(data)
            self.num_bytes += len(data)
            count[0] += len(data)
        try:
            target.sendall(data)
        except OSError:
            self._cut_one(selector, source, target)
            return
        if self._cut_every and count[0] >= self._cut_every:
            self.num_cuts += 1
            self._cut_one(selector, source, target)

    def _damaged(self, data):
        while self._damage_at and self._damage_at[0] < self.num_bytes + len(data):
            position = self._damage_at.pop(0) - self.num_bytes
            if position >= 0:
                data = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        return data

    def _cut_one(self, selector, *ends):
        for end in ends:
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(end)
            end.close()
        self._pairs = [pair for pair in self._pairs if pair[0] not in ends]

    def _cut_all(self, selector):
        for pair in list(self._pairs):
            self._cut_one(selector, *pair)
