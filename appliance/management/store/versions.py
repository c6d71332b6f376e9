"""Which releases of the client this appliance serves, and the versions it announces to them."""

from collections.abc import Mapping

CLIENT_BUILDS: Mapping[str, str] = {"2.10.0": "32008fd851"}
"""Git hash of each client release; a client demands its own hash of the servers."""

NEWEST_CLIENT = "2.10.0"
"""Release assumed of a caller that does not say which one it is."""

CLUSTER_SERVER_SEMVER = ""
"""Semantic version of the cluster server. Empty on purpose: from 1.0.10 on, a client learns that
its job is ready from the answers to its 10-second heartbeats; without a version it uses
PollIngressV2, which answers at once."""

JOB_OPERATOR_SEMVER = "1.14.0"
"""Semantic version of the job operator; from 1.0.4 on, clients send initial weights as small
graphs where they can."""


def client_build(version: str) -> tuple[str, str]:
    """Return the release to pose as for a client, and its git hash.

    Args:
        version: Build version of the client; one that is not known gets the newest known, so that
            its own version check refuses with both versions.
    """
    known = version if version in CLIENT_BUILDS else NEWEST_CLIENT
    return known, CLIENT_BUILDS[known]
