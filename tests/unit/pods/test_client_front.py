"""What may not come to a job's server is cut before gRPC learns of it, and told why."""

import socket
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from appliance.pods.client.client_front import REFUSAL, open_front
from appliance.wire.connections.accepted import Accepted

OWNER, STRANGER = 1000, 65534
AUTHORITY = "Wsjob-a-coordinator-0-SECRET.cluster-server"
SECONDS = 60


class Counted(grpc.GenericRpcHandler):
    """Counts the calls that gRPC hands over."""

    num_calls = 0

    def service(self, _):
        self.num_calls += 1
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)


class Pod:
    """A server behind a front; `uid` is whose the next connection is."""

    uid: int | None = OWNER
    is_local = True

    def __init__(self, directory, *, is_encrypted=False) -> None:
        self.counted = Counted()
        self.server = grpc.server(ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((self.counted,))
        self.server.add_insecure_port(f"unix:{directory}/client.sock")
        self.front, self.port = open_front(
            "127.0.0.1",
            directory / "client.sock",
            owner_uid=OWNER,
            authority=AUTHORITY,
            is_encrypted=is_encrypted,
            see=lambda _: Accepted(host="127.0.0.1", uid=self.uid, is_local=self.is_local),
        )
        self.server.start()
        self.front.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()
        self.front.close()

    def call(self) -> bytes:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options) as channel:
            answer = channel.unary_unary("/s/m")(b"hello", timeout=SECONDS)
        assert isinstance(answer, bytes)
        return answer


@pytest.mark.parametrize(
    ("uid", "is_local"), [(OWNER, True), (0, True), (None, False)], ids=["owner", "root", "far"]
)
def test_who_may_come_is_answered(tmp_path, uid, is_local):
    with Pod(tmp_path) as pod:
        pod.uid, pod.is_local = uid, is_local
        assert pod.call() == b"hello"


@pytest.mark.parametrize("uid", [STRANGER, None])
def test_another_user_of_the_machine_is_told_why_and_grpc_learns_nothing(tmp_path, uid):
    with Pod(tmp_path) as pod:
        pod.uid = uid
        with pytest.raises(grpc.RpcError) as refused:
            pod.call()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "PERMISSION_DENIED" in refused.value.details()
        assert pod.counted.num_calls == 0
        pod.uid = OWNER
        assert pod.call() == b"hello"


def test_whoever_reads_the_answer_finds_the_sentence(tmp_path):
    with Pod(tmp_path) as pod:
        pod.uid = STRANGER
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{pod.port}/", timeout=SECONDS)
        assert (refused.value.code, refused.value.read()) == (403, REFUSAL.encode())


def test_with_tls_he_gets_the_end_of_the_connection(tmp_path):
    with Pod(tmp_path, is_encrypted=True) as pod:
        pod.uid = STRANGER
        with socket.create_connection(("127.0.0.1", pod.port), SECONDS) as connection:
            assert connection.recv(1) == b""


def hello(name: str | None) -> bytes:
    """Return how a TLS client begins that calls a name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "sent",
    [
        hello("wsjob-a-coordinator-0-guess.cluster-server"),
        hello("wsjob-a-coordinator-0-secret.cluster-server.more"),
        hello(None),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["another", "longer", "no name", "no TLS"],
)
@pytest.mark.parametrize("is_local", [True, False])
def test_with_tls_nobody_gets_to_grpc_who_does_not_name_the_authority(tmp_path, sent, is_local):
    with Pod(tmp_path, is_encrypted=True) as pod:
        pod.uid, pod.is_local = (OWNER if is_local else None), is_local
        with socket.create_connection(("127.0.0.1", pod.port), SECONDS) as connection:
            connection.sendall(sent)
            assert connection.recv(1) == b""


def test_with_tls_who_names_the_authority_is_let_in_however_it_comes(tmp_path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "client.sock"))
    listening.listen()
    front, port = open_front(
        "127.0.0.1",
        tmp_path / "client.sock",
        owner_uid=OWNER,
        authority=AUTHORITY,
        is_encrypted=True,
        see=lambda _: Accepted(host="192.0.2.1", is_local=False),
    )
    front.start()
    whole = hello(AUTHORITY.lower())
    with listening, socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        for part in (whole[:1], whole[1:50], whole[50:]):
            connection.sendall(part)
        inner, _ = listening.accept()
        with inner:
            inner.settimeout(SECONDS)
            got = b""
            while len(got) < len(whole):
                got += inner.recv(len(whole))
            assert got == whole
    front.close()


def test_the_user_of_the_pod_may_come_from_the_pod_itself(tmp_path):
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((Counted(),))
    server.add_insecure_port(f"unix:{tmp_path}/client.sock")
    front, port = open_front(
        "127.0.0.1",
        tmp_path / "client.sock",
        owner_uid=-1,
        authority=AUTHORITY,
        is_encrypted=False,
    )
    server.start()
    front.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/s/m")(b"hello", timeout=SECONDS) == b"hello"
    server.stop(0).wait()
    front.close()
