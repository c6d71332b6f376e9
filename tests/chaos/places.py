"""Worlds with something amiss around the appliance: its disk, its shared memory, its network."""

import contextlib
import errno
import os
import shutil
import subprocess
import time

import grpc

from protos.cluster import cluster_pb2
from tests.chaos.actions import Action
from tests.chaos.episodes import HUNG_SECONDS, Finding
from tests.chaos.faults import Blow, Fault, Promise
from tests.chaos.processes import pause
from tests.chaos.world import Shape, World, read_story
from tests.support.faulty_network import Line, two_hosts
from tests.support.nodes import NodeProcess, agent_arguments, joined_nodes, write_token
from tests.support.ports import free_ports

_DISK_MIB = 1536
"""More than the appliance keeps free by itself, so that it starts at all."""
_STEPS = 60
_DROP_SHARE = 0.05
_CUT_SECONDS = 3.0
_DELAY_SECONDS = 0.02


def can_be_made():
    """Whether this user may mount file systems and make network namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and _try("unshare", "-mn", "true")


def _try(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _fault(target, promise):
    return Fault(blows=(Blow(action=Action.MAKE, target=target),), promise=promise)


def _finish(world, client, name, finding, reference):
    """Wait for a client and see whether its losses are the reference's."""
    story = world.story_path(name)
    try:
        client.wait(_STEPS * 0.05 + HUNG_SECONDS)
    except subprocess.TimeoutExpired:
        finding.misses["hung"] = f"the client goes on: {read_story(story)[-1:]}"
        client.kill()
        client.wait()
        return
    losses = [each["loss"] for each in read_story(story) if "loss" in each]
    if client.returncode != 0:
        finding.misses["lost"] = str(read_story(story)[-2:])
    elif losses != reference[:_STEPS]:
        finding.misses["losses differ"] = f"{len(losses)} of {_STEPS}"


def _start(world, name):
    world.release(name)
    client = world.start_client(name, Shape(), steps=_STEPS, seconds_per_batch=0.05)
    deadline = time.monotonic() + 60
    while client.poll() is None and time.monotonic() < deadline:
        if any("loss" in each for each in read_story(world.story_path(name))):
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
            name = f"disk-{number}"
            client = _start(world, name)
            filler = data / "filler"
            _fill(filler)
            finding.reason_seconds = _refusal(world, finding)
            filler.unlink()
            _finish(world, client, name, finding, reference)
            findings.append(finding)
    finally:
        world.down()
        subprocess.run(["umount", "--lazy", str(data)], check=True)
    return findings


def _fill(filler):
    """Write until nothing goes onto the disk any more; others write to it at the same time."""
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):  # the last is a page, the least that tmpfs gives
            block = bytes(size)
            try:
                while file.write(block) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _refusal(world, finding):
    """Ask for a compile on the full disk; it must be refused, or wait with a reason, in words."""
    begun = time.monotonic()
    request = cluster_pb2.CompileJobRequest(compile_dir_relative_path="cached_compile")
    request.job_mode.job = 1
    said = ""
    with world.management() as stub:
        try:
            # A connection that could not be made while the machine was busy is made again.
            job = stub.InitCompileJob(
                request, metadata=world.metadata, timeout=30, wait_for_ready=True
            ).job_id
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
                stub.CancelJobV2(end, metadata=world.metadata, timeout=20)
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
        world.compile(Shape())
        begun = time.monotonic()
        client = _start(world, "shm")
        out = world.story_path("shm")
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
        for number in range(rounds):
            for what in ("packets lost", "network cut"):
                finding = Finding(fault=_fault(what, Promise.GOES_ON))
                run = f"network-{number}-{what[0]}"
                client = _start(world, run)
                share = ("-m", "statistic", "--mode", "random", "--probability", str(_DROP_SHARE))
                rule = ("OUTPUT", *(share if what == "packets lost" else ()), "-j", "DROP")
                subprocess.run([*inside, "iptables", "-A", *rule], check=True)
                pause(_CUT_SECONDS)
                subprocess.run([*inside, "iptables", "-D", *rule], check=True)
                _finish(world, client, run, finding, reference)
                findings.append(finding)
    finally:
        world.down()
        subprocess.run(["ip", "netns", "del", name], check=True)
    return findings


def distant_hosts(directory, reference, rounds=1):
    """Run jobs across two hosts with a slow line between them, which is cut in each job, too."""
    line = Line(
        delay_seconds=_DELAY_SECONDS, loss=0.01, cut_after_packets=600, cut_seconds=_CUT_SECONDS
    )
    findings = []
    for number in range(rounds):
        with two_hosts(line) as (places, counts):
            finding = Finding(fault=_fault("delay between hosts, loss and a cut", Promise.GOES_ON))
            where = directory / str(number)
            where.mkdir()
            with _nodes_apart(where, places) as world:
                name = "distant"
                client = _start(world, name)
                _finish(world, client, name, finding, reference)
            if not counts[2]:
                finding.is_late = True
            findings.append(finding)
    return findings


@contextlib.contextmanager
def _nodes_apart(directory, places):
    """Yield an appliance whose CS-2 and input worker are on another host than the rest."""
    near, far = places
    ports = free_ports(2)
    arguments = [*agent_arguments(*ports), "--systems", "1"]
    arguments[arguments.index("--inner-host") + 1] = near.address
    world = World(directory, arguments=arguments, prefix=near.prefix)
    world.up()
    try:
        settings = {
            "join": f"{near.address}:{ports[1]}",
            "token": write_token(world.data_dir),
            "directory": directory,
        }
        nodes = [
            NodeProcess(name, place.address, roles, prefix=place.prefix, **settings)
            for name, place, roles in (
                ("near", near, ("management", "memory", "broadcastreduce")),
                ("far", far, ("activation", "worker")),
            )
        ]
        with joined_nodes(*nodes):
            yield world
    finally:
        world.down()
