"""What reads bytes that somebody else wrote: each may refuse by an error of ours, and no other.

A target is a function of bytes, with right examples of them, and the errors by which it refuses.
"""

import gzip
import json
import socket
import ssl
import tempfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jwt
from google.protobuf.message import DecodeError

from appliance.api.cursors import job_place, offset_of
from appliance.api.tags import version_of
from appliance.cluster.kubernetes.options import parse_options
from appliance.cluster.node_messages import survivors
from appliance.compiler.importer import import_program
from appliance.core.cluster.join_token import JoinToken, end_seconds
from appliance.core.errors import WscError
from appliance.core.ir.graph_text import parse_graph, print_graph
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.queries.job_filter import JobOrder
from appliance.csl.program.serialised import ProgramFormatError
from appliance.csl.program.serialised import decode as decode_program
from appliance.csl.program.serialised import encode as encode_program
from appliance.management.background.notification_channels import read_notify_options
from appliance.management.cluster.cluster_file import parse_cluster
from appliance.management.front.proxy_preface import (
    NoPrefaceError,
    read_preface,
    write_preface,
)
from appliance.management.store.instance import Instance
from appliance.streams.handshake import decode_message, encode_message, receive_message
from appliance.streams.network import tcp_frames as frames
from appliance.streams.network.introduction import Challenge
from appliance.wafer.hardware import parse_machine
from appliance.wire.caller import caller
from appliance.wire.connections.client_hello import NoHelloError, parse_client_hello
from appliance.wire.requests.run_requests import run_schedule
from appliance.wire.requests.submissions import compile_submission, execute_submission
from appliance.wire.tensor_chunks import parse_chunk
from protos.appliance.appliance_service_pb2 import RunRequest
from protos.cluster.cluster_pb2 import CompileJobRequest, ExecuteJobRequest
from protos.wsc.v1.nodes_pb2 import NodeReport
from tests.support.appliance_process import execute_request
from tests.support.plans import two_layer_plan
from tests.unit.csl.test_serialised import _program as wafer_program

_UNIT = Path(__file__).parents[1] / "unit"
PROGRAMS = _UNIT / "compiler" / "programs"
SAMPLES = _UNIT.parent / "conformance" / "samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A target.

    Attributes:
        read: Reads bytes.
        seeds: Bytes that it reads without an error.
        expected_errors: The errors by which it says that bytes are wrong.
        weight: How many of its cases are run for each of another's; slow ones have less.
    """

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    expected_errors: tuple[type[BaseException], ...] = (WscError,)
    weight: float = 1.0


def as_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """Let something that reads text read bytes; what is no UTF-8 has lone surrogates then."""
    return lambda data: read(data.decode(errors="surrogateescape"))


def client_hello() -> bytes:
    """Return what OpenSSL says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    connection = context.wrap_bio(incoming, outgoing, server_hostname="wsjob-1.example")
    with suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def _introduce(data: bytes) -> None:
    """Be the server of the stream handshake for a client that says these bytes and hangs up."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data[: 1 << 16])
        theirs.shutdown(socket.SHUT_WR)
        Challenge(ours, lambda hello: str(hello.get("job")).encode()).ask()


def _greet(data: bytes) -> None:
    """Take one packet of the handshake on this host."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(data[: 1 << 15])
        _, descriptors = receive_message(ours, peer="A peer")
        assert descriptors == []


def _protobuf(message, use, data: bytes) -> None:
    use(message.FromString(data))


def _notify(directory: Path, data: bytes) -> None:
    path = directory / "notify.yaml"
    path.write_bytes(data)
    read_notify_options(path)


def _instance(directory: Path, data: bytes) -> None:
    (directory / "appliance.json").write_bytes(data)
    Instance(directory).find_state()


def _metadata(data: bytes) -> None:
    fields = data.decode(errors="replace").split("\n")
    caller(tuple((key, value) for key, _, value in (field.partition("=") for field in fields)))


def _cursor(data: bytes) -> None:
    text = data.decode(errors="replace")
    for order in JobOrder:
        with suppress(WscError):
            job_place(text, order)
    with suppress(WscError):
        offset_of(text)
    with suppress(WscError):
        version_of(text)


def _token(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    with suppress(UnicodeEncodeError):  # a header cannot carry such text
        jwt.decode(text, b"k" * 32, algorithms=["HS256"], options={"verify_exp": False})


def _join(data: bytes) -> None:
    token = JoinToken.parse(data.decode(errors="replace"))
    end_seconds(token.id)


_CLUSTER = """\
systems:
  - {count: 2, block: leaf0}
  - {name: systemf9}
node_groups:
  - {count: 2, kind: large, nodes: 12, memory: 1128Gi, cores: 64}
nodes:
  - {role: management, memory: 125Gi, cores: 64}
  - {roles: [activation, worker], count: 2, memory: 128Gi, cores: 32}
pod_memory: {compile: 67Gi, execute: 32Gi}
"""
_NOTIFY = b"""\
mail: {host: smtp.example, port: 25, sender: wsc@example}
targets:
  - {channel: email, address: ada@example}
"""
_KUBERNETES = b"""\
namespace: wsc
image: wsc:1
dataVolume: {claim: data, path: /data}
"""


def _programs() -> Iterable[bytes]:
    yield from (path.read_bytes() for path in sorted(PROGRAMS.glob("mlp*.mlir")))
    for path in sorted(SAMPLES.glob("op.*.mlir.gz"))[:12]:
        yield gzip.decompress(path.read_bytes())


def decoders() -> dict[str, Decoder]:
    """Return all targets."""
    return {**_of_connections(), **_of_messages(), **_of_texts(), **_of_programs()}


def _of_connections() -> dict[str, Decoder]:
    return {
        "client hello": Decoder(
            read=parse_client_hello, seeds=(client_hello(),), expected_errors=(NoHelloError,)
        ),
        "proxy preface": Decoder(
            read=read_preface,
            seeds=tuple(
                write_preface(host, bytes(32), b"key") for host in ("192.0.2.1", "2001:db8::1", "")
            ),
            expected_errors=(NoPrefaceError,),
        ),
    }


def _of_messages() -> dict[str, Decoder]:
    compile_request = CompileJobRequest(compile_dir_relative_path="cached_compile")
    compile_request.debug_args.debug_mgr.labels["a"] = "b"
    hello = NodeReport()
    hello.hello.SetInParent()
    run = RunRequest(num_iterations=100, activation_freq=1)
    run.checkpoint_schedule.intervals.add(start=9, end=99, step=10)
    protobuf = (WscError, DecodeError)
    return {
        "stream handshake": Decoder(
            read=partial(decode_message, peer="A peer"),
            seeds=(encode_message({"name": "ring", "label": "pod"}),),
        ),
        "stream introduction": Decoder(
            read=_introduce,
            seeds=tuple(
                len(text).to_bytes(4, "little") + text
                for text in (encode_message({"name": "ring", "job": "j", "proof": "x"}),)
            ),
            expected_errors=(WscError, ConnectionError),
            weight=0.5,
        ),
        "stream packet": Decoder(
            read=_greet, seeds=(encode_message({"name": "ring"}),), weight=0.5
        ),
        "network frame": Decoder(
            read=lambda data: frames.decode(data[: frames.FRAME_BYTES].ljust(frames.FRAME_BYTES)),
            seeds=tuple(frames.Frame(kind=kind, number=3).encode() for kind in frames.Kind),
            expected_errors=(frames.ChannelBrokenError,),
        ),
        "tensor chunk": Decoder(read=parse_chunk, seeds=(b"\x0a\x03abc\x12\x02de",)),
        "compile request": Decoder(
            read=partial(_protobuf, CompileJobRequest, compile_submission),
            seeds=(compile_request.SerializeToString(),),
            expected_errors=protobuf,
        ),
        "execute request": Decoder(
            read=partial(_protobuf, ExecuteJobRequest, execute_submission),
            seeds=(execute_request(2, 1).SerializeToString(),),
            expected_errors=protobuf,
        ),
        "run request": Decoder(
            read=partial(_protobuf, RunRequest, run_schedule),
            seeds=(run.SerializeToString(),),
            expected_errors=protobuf,
        ),
        "node report": Decoder(
            read=partial(_protobuf, NodeReport, lambda report: survivors(report.hello)),
            seeds=(hello.SerializeToString(),),
            expected_errors=protobuf,
        ),
    }


def _of_texts() -> dict[str, Decoder]:
    scratch = Path(tempfile.mkdtemp(prefix="wsc-fuzz-"))
    return {
        "metadata": Decoder(
            read=_metadata, seeds=(b"auth-uid=1\nauth-gid=2\nauth-username=ada\nnamespace=s",)
        ),
        "cursor": Decoder(read=_cursor, seeds=(b"WyJwcmlvcml0eSIsIDEsIDJd", b"0", b'"3"')),
        "token": Decoder(
            read=_token,
            seeds=(jwt.encode({"sub": "ada", "jti": "tok-1"}, "k" * 32).encode(),),
            expected_errors=(jwt.InvalidTokenError,),
        ),
        "join token": Decoder(read=_join, seeds=(b"wsc-join.6723-ab.secret.ff00",)),
        "cluster file": Decoder(
            read=as_text(partial(parse_cluster, source="The cluster file")),
            seeds=(_CLUSTER.encode(),),
            weight=0.5,
        ),
        "machine table": Decoder(
            read=as_text(parse_machine), seeds=(b'{"base": "cs2", "sram_bytes_per_pe": 65536}',)
        ),
        "notification file": Decoder(read=partial(_notify, scratch), seeds=(_NOTIFY,), weight=0.5),
        "kubernetes settings": Decoder(
            read=as_text(partial(parse_options, source="The settings")),
            seeds=(_KUBERNETES,),
            weight=0.5,
        ),
        "appliance.json": Decoder(
            read=partial(_instance, scratch),
            seeds=(json.dumps({"pid": 1, "address": "a", "rest_url": "r"}).encode(),),
            weight=0.3,
        ),
    }


def _of_programs() -> dict[str, Decoder]:
    programs = tuple(_programs())
    plan = print_plan(two_layer_plan()).encode()
    graph = print_graph(import_program(programs[0].decode())).encode()
    wafer = zlib.decompress(encode_program(wafer_program()))
    return {
        "program text": Decoder(read=as_text(import_program), seeds=programs, weight=0.5),
        "graph text": Decoder(read=as_text(parse_graph), seeds=(graph,), weight=0.5),
        "plan text": Decoder(read=as_text(parse_plan), seeds=(plan,), weight=0.5),
        "wafer program": Decoder(
            read=lambda data: decode_program(zlib.compress(data, 1)),
            seeds=(wafer,),
            expected_errors=(ProgramFormatError,),
        ),
    }
