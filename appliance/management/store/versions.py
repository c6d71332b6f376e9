"""Which releases of the client this appliance serves, and the versions it announces to each.

A real cluster serves one release. This one serves all public ones at once: each caller is answered
as a cluster of its own release would answer, and a job's coordinator as the release of the client
that submitted the job (`JobRecord.client_release`).
"""

from collections.abc import Mapping

CLIENT_BUILDS: Mapping[str, str] = {
    "2.6.0": "0c2f21fdef",
    "2.7.0": "e1377561a5",
    "2.7.1": "115095ac7d",
    "2.8.0": "56f21b7ebd",
    "2.9.0": "e2e12a41a8",
    "2.10.0": "32008fd851",
}
"""Git hash of each client release, oldest first; a client demands its own hash of the servers."""

NEWEST_CLIENT = "2.10.0"
"""Release assumed of a caller that does not say which one it is."""

SERVED_RELEASES = f"{', '.join(list(CLIENT_BUILDS)[:-1])} or {NEWEST_CLIENT}"
"""All releases in one phrase. As a version it makes a client of another release print what it has
to install, since it names the version that it was told."""

CLUSTER_SERVER_SEMVER = ""
"""Semantic version of the cluster server. Empty on purpose: from 1.0.10 on, a client learns that
its job is ready from the answers to its 10-second heartbeats; without a version it uses
PollIngressV2, which answers at once."""

JOB_OPERATOR_SEMVER = "1.14.0"
"""Semantic version of the job operator; from 1.0.4 on, clients send initial weights as small
graphs where they can."""


def client_build(release: str) -> tuple[str, str]:
    """Return the version to announce to a client, and its git hash.

    Args:
        release: The client's; empty if it did not say. To one that is not served all that are
            served are announced, with the newest one's hash, so that its own check refuses.
    """
    known = release or NEWEST_CLIENT
    if known not in CLIENT_BUILDS:
        return SERVED_RELEASES, CLIENT_BUILDS[NEWEST_CLIENT]
    return known, CLIENT_BUILDS[known]
