"""Worlds with something amiss around the appliance: its disk, its shared memory, its network."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import grpc

from protos.cluster import cluster_pb2
from tests.chaos.episodes import HUNG_SECONDS, Finding
from tests.chaos.faults import Action, Blow, Fault, Promise
from tests.chaos.processes import pause
from tests.chaos.world import USER, Shape, World, read_story

_DISK_MIB = 1536
"""More than the appliance keeps free by itself, so that it starts at all."""
_STEPS = 60
_DROP_SHARE = 0.05
_CUT_SECONDS = 3.0


def can_be_made():
    """Whether this user may mount file systems and make network namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and _try("unshare", "-mn", "true")


def _try(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _fault(target, promise):
    return Fault(blows=(Blow(action=Action.SET, target=target),), promise=promise)


def _finish(world, client, out, finding, reference):
    """Wait for a client and see whether its losses are the reference's."""
    try:
        client.wait(_STEPS * 0.05 + HUNG_SECONDS)
    except subprocess.TimeoutExpired:
        finding.misses["hung"] = f"the client goes on: {read_story(out)[-1:]}"
        client.kill()
        client.wait()
        return
    losses = [each["loss"] for each in read_story(out) if "loss" in each]
    if client.returncode != 0:
        finding.misses["lost"] = str(read_story(out)[-2:])
    elif losses != reference[:_STEPS]:
        finding.misses["losses differ"] = f"{len(losses)} of {_STEPS}"


def _start(world, out):
    (out.parent / f"{out.name}.go").touch()
    client = world.start_client(out, out.stem, Shape(), steps=_STEPS, seconds_per_batch=0.05)
    deadline = time.monotonic() + 60
    while client.poll() is None and time.monotonic() < deadline:
        if any("loss" in each for each in read_story(out)):
            break
        pause(0.05)
    return client


def full_disk(directory, reference, rounds=2):
    """Fill the data directory's disk while a job runs, ask for another job, and make room again."""
    data = directory / "disk"
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m,mode=0700", "tmpfs", str(data)]
    subprocess.run(mount, check=True)
    world = World(directory, arguments=("--systems", "2"), data_dir=data / "data")
    findings = []
    try:
        world.up()
        for number in range(rounds):
            finding = Finding(fault=_fault("full disk", Promise.GOES_ON))
            out = directory / f"disk-{number}.jsonl"
            world.compile(Shape())
            client = _start(world, out)
            filler = data / "filler"
            status = os.statvfs(data)
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize)
            finding.reason_seconds = _refusal(world, finding)
            filler.unlink()
            _finish(world, client, out, finding, reference)
            findings.append(finding)
    finally:
        world.down()
        subprocess.run(["umount", "--lazy", str(data)], check=True)
    return findings


def _refusal(world, finding):
    """Ask for a compile on the full disk; it must be refused, or wait with a reason, in words."""
    begun = time.monotonic()
    request = cluster_pb2.CompileJobRequest(compile_dir_relative_path="cached_compile")
    request.job_mode.job = 1
    said = ""
    with world.management() as stub:
        try:
            job = stub.InitCompileJob(request, metadata=USER, timeout=30).job_id
        except grpc.RpcError as error:
            said = error.details() or ""
        else:
            while not said and time.monotonic() < begun + 10:
                with contextlib.suppress(grpc.RpcError):
                    ingress = cluster_pb2.GetIngressRequest(job_id=job)
                    for answer in stub.PollIngressV2(ingress, timeout=2):
                        if _names_the_disk(answer.message):
                            said = answer.message
            end = cluster_pb2.CancelJobRequest(
                job_id=job, job_status=cluster_pb2.JOB_STATUS_CANCELLED
            )
            with contextlib.suppress(grpc.RpcError):
                stub.CancelJobV2(end, metadata=USER, timeout=20)
    if not _names_the_disk(said):
        finding.misses["reason"] = f"no word of the disk in {said!r}"
    return time.monotonic() - begun


def _names_the_disk(text):
    return any(word in text.lower() for word in ("disk", "space", "no room", "full"))


def tiny_shared_memory(directory):
    """Run a job where /dev/shm holds next to nothing: it must fail by name and leave nothing."""
    script = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec "$@"'
    world = World(
        directory,
        arguments=("--systems", "1"),
        prefix=("unshare", "-m", "sh", "-c", script, "sh"),
    )
    finding = Finding(fault=_fault("tiny /dev/shm", Promise.FAILS))
    world.up()
    try:
        out = directory / "shm.jsonl"
        world.compile(Shape())
        begun = time.monotonic()
        client = _start(world, out)
        try:
            client.wait(60)
        except subprocess.TimeoutExpired:
            finding.misses["hung"] = str(read_story(out)[-2:])
            client.kill()
            client.wait()
        finding.reason_seconds = time.monotonic() - begun
        told = str(read_story(out)[-2:])
        if not any(word in told for word in ("shared memory", "/dev/shm", "No space", "memory")):
            finding.misses["reason"] = told
    finally:
        world.down()
    return [finding]


def bad_network(directory, reference, rounds=2):
    """Run jobs whose pods are hosts of their own on a network that loses packets and is cut."""
    name = f"wsc-chaos-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = ("ip", "netns", "exec", name)
    subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
    world = World(directory, arguments=("--systems", "2", "--streams", "network"), prefix=inside)
    findings = []
    try:
        world.up()
        _compile_inside(world, inside)
        for number in range(rounds):
            for what in ("packets lost", "network cut"):
                finding = Finding(fault=_fault(what, Promise.GOES_ON))
                out = directory / f"network-{number}-{what[0]}.jsonl"
                client = _start(world, out)
                share = ("-m", "statistic", "--mode", "random", "--probability", str(_DROP_SHARE))
                rule = ("OUTPUT", *(share if what == "packets lost" else ()), "-j", "DROP")
                subprocess.run([*inside, "iptables", "-A", *rule], check=True)
                pause(_CUT_SECONDS)
                subprocess.run([*inside, "iptables", "-D", *rule], check=True)
                _finish(world, client, out, finding, reference)
                findings.append(finding)
    finally:
        world.down()
        subprocess.run(["ip", "netns", "del", name], check=True)
    return findings


def _compile_inside(world, inside):
    """Compile in the namespace, which this process is not in."""
    path = world.directory / "compiled-1-1"
    script = (
        "import sys; from pathlib import Path; from tests.chaos import wire_client, world\n"
        "a = wire_client.compile_program(sys.argv[1], world.PROGRAM.read_text(), num_systems=1,"
        " num_shards=1, metadata=world.USER)\n"
        "Path(sys.argv[2]).write_bytes(a.SerializeToString())"
    )
    command = [*inside, sys.executable, "-c", script, world.address, str(path)]
    subprocess.run(command, check=True, cwd="/", env=world.environment)
    world.compiled[Shape()] = path
