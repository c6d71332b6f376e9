"""What the messages of the releases of the client have otherwise than ours on the wire."""

import json
import subprocess
from pathlib import Path

import pytest

from appliance.management.store.versions import CLIENT_BUILDS
from tests.conformance.client.describe_messages import described
from tests.support.client import PROGRAMS, client_environment, client_venv

pytestmark = [pytest.mark.client, pytest.mark.slow]

STUBS = "cerebras.appliance.pb"
SERVED = ("cerebras.", "cluster.")
OF_INFERENCE = ("Inference", "Prompt", "Encoder", "MultiModal", "DraftIbox", "ReconfigureRequest")
"""What is said of these is for the inference service alone, which is not served."""

_UNTIL = {release: tuple(CLIENT_BUILDS)[: n + 1] for n, release in enumerate(CLIENT_BUILDS)}
_FROM_270 = ("2.7.0", "2.7.1", "2.8.0", "2.9.0")
_LOAD, _PENDING = "cerebras.LoadRequest", "cluster.cluster_mgmt_pb.csctl.v1.JobPendingStatus"
_DEBUG, _FAULT = "cerebras.DebugOperationRequest", "cerebras.SystemFault"
DIFFERENT = {
    # Ignored: servers of those releases are told by it what they are.
    ("cerebras.InitRequest", "4"): _UNTIL["2.7.1"],
    # Only with inference, which `UnaryInit` has refused before, by a field that all releases have.
    **dict.fromkeys([(_LOAD, "20"), (_LOAD, "24"), (_LOAD, "29")], _UNTIL["2.9.0"]),
    # Ignored, as images are.
    ("cluster.cluster_mgmt_pb.SdkExecuteJobRequest", "14"): ("2.6.0",),
    # A name alone.
    ("cerebras.ClusterDetails.TaskInfo.TaskType", "10"): ("2.6.0", "2.7.0"),
    ("cerebras.ws.CrossCompileState", "8"): _FROM_270,
    # Nobody but those who asked for the reasons of waiting gets it, and clients never ask.
    **dict.fromkeys([(_PENDING, number) for number in "12345"], ("2.8.0",)),
    ("cluster.cluster_mgmt_pb.csctl.v1.JobStatus", "8"): ("2.8.0",),
    ("cluster.cluster_mgmt_pb.csctl.GetOptions", "16"): ("2.8.0",),
    # Never sent.
    (_FAULT, "3"): _FROM_270,
    (_FAULT, "4"): ("2.9.0",),
    **dict.fromkeys([(_DEBUG, "2"), (_DEBUG, "3")], ("2.9.0",)),
    ("cerebras.DebugOperationResponse", "3"): ("2.9.0",),
}
"""Fields of messages that both have, with a name or a type that ours do not have, by release."""


def test_messages_of_every_release_are_ours_but_for_what_is_known(tmp_path: Path) -> None:
    ours = described("protos")
    found: dict[tuple[str, str], list[str]] = {}
    for release in CLIENT_BUILDS:
        for place in _differences(_messages_of(release, tmp_path), ours):
            found.setdefault(place, []).append(release)
    assert {place: tuple(releases) for place, releases in found.items()} == DIFFERENT


def _messages_of(release: str, folder: Path) -> dict[str, dict[str, str]]:
    out, venv = folder / f"{release}.json", client_venv(release)
    command = [venv / "bin" / "python", PROGRAMS / "describe_messages.py", STUBS, out]
    subprocess.run(command, env=client_environment(venv), check=True, timeout=120)
    messages: dict[str, dict[str, str]] = json.loads(out.read_text())
    return messages


def _differences(
    theirs: dict[str, dict[str, str]], ours: dict[str, dict[str, str]]
) -> list[tuple[str, str]]:
    """Return where they differ: a message, and a field's number or a method's name."""
    return [
        (name, key)
        for name, fields in theirs.items()
        if name in ours and name.startswith(SERVED)
        for key, text in fields.items()
        if not any(word in part for word in OF_INFERENCE for part in (name, key))
        if ours[name].get(key) != text
    ]
