"""The appliance of docker-compose.yml, attacked by its published port."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace

from protos.appliance.common_config_pb2 import JobMode
from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from tests.attack.modes import SECONDS, Outcome, tried
from tests.attack.targets import Target
from tests.support.containers import Compose, choose_images, composed, running_engine
from tests.support.ports import free_port

NAME = "Compose"
_HANDOUT = "/var/lib/wsc-handout"


def attack_compose() -> Iterator[Outcome]:
    """Start the project and yield what became of each attack on it; needs root and an engine."""
    port = free_port()
    with running_engine() as engine:
        variables = choose_images(engine).variables | {"WSC_PORT": str(port)}
        project = f"wsc-attack-{secrets.token_hex(4)}"
        with composed(engine, project, variables) as compose:
            target, user = _target(compose, port)
            for who, each in (
                ("nobody", target),
                ("a user with a token", replace(target, token=user, name="user")),
            ):
                for name, how in tried(0, "remote", each).items():
                    yield _outcome(who, name, how)
            made = tried(0, "remote", replace(target, token=target.secrets[1]))
            for name in ("a_job_of_another_is_not_ended", "no_call_ends_a_job_of_another"):
                how = "" if made.get(name) else "its owner could not do it: the attack is not made"
                yield _outcome("control", name, how)


def _outcome(who: str, name: str, how: str) -> Outcome:
    return Outcome(mode=NAME, who=who, attack=name.replace("_", " "), how=how)


def _target(compose: Compose, port: int) -> tuple[Target, str]:
    """Return the appliance as it is found from outside, and the token of its user."""
    (told,) = json.loads(compose.execute("user-node", "cat", f"{_HANDOUT}/config_v2"))["clusters"]
    user = compose.execute("user-node", "cat", f"{_HANDOUT}/user.token").strip()
    owner = compose.nodes_token()
    found = Target(
        rest=f"https://localhost:{port}",
        management=f"localhost:{port}",
        authority=f"{told['namespaces'][0]['name']}.{told['authority']}",
        pem=compose.execute("user-node", "cat", f"{_HANDOUT}/ca.pem"),
    )
    job, authority = _submit(found, owner)
    reached = replace(
        found,
        job=job,
        coordinator=(found.management, authority),
        secrets=(authority.split(".")[0], owner),
    )
    return reached, user


def _submit(target: Target, token: str) -> tuple[str, str]:
    """Submit a job of the nodes' own user; return it and its coordinator's authority."""
    metadata = (("auth-token", token),)
    request = pb.CompileJobRequest(
        job_mode=JobMode(job=JobMode.COMPILE), compile_dir_relative_path="cached_compile"
    )
    with target.channel() as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        job = stub.InitCompileJob(request, metadata=metadata, timeout=SECONDS).job_id
        last = pb.GetIngressResponse()
        for last in stub.PollIngressV2(pb.GetIngressRequest(job_id=job), timeout=300):
            if last.is_scheduled:  # this call proves whose the stream is
                stub.GetJob(pb.GetJobRequest(job_id=job), metadata=metadata, timeout=SECONDS)
    assert last.service_authority, f"nobody told the owner of {job} where its coordinator is"
    return job, last.service_authority
