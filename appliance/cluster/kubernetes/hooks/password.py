"""`python -m appliance.cluster.kubernetes.hooks.password`: makes the database's password once.

The chart runs it before it is installed or upgraded. The password belongs to the database's volume,
which outlives the release, so it is no object of the release: an upgrade, a removal and a second
render of the chart leave it as it is.
"""

import argparse
import base64
import logging
import secrets
import sys
from collections.abc import Mapping, Sequence

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import SECRET
from appliance.observability.logging import configure_logging

logger = logging.getLogger(__name__)

KEEP = {"helm.sh/resource-policy": "keep"}
"""Annotation by which Helm leaves a Secret that an earlier chart made and this one does not."""

_KEY = "password"
_BYTES = 24


def keep_password(api: ApiServer, secret: str, labels: Mapping[str, str]) -> bool:
    """Make the Secret of a password, unless there is one; either way Helm is to leave it.

    Args:
        api: The Kubernetes API.
        secret: The Secret's name.
        labels: Its labels if it is made.

    Returns:
        Whether it was made.
    """
    if api.find(SECRET, secret) is not None:
        api.patch(SECRET, secret, {"metadata": {"annotations": KEEP}})
        return False
    password = base64.b64encode(secrets.token_urlsafe(_BYTES).encode()).decode()
    metadata = {"name": secret, "labels": dict(labels), "annotations": KEEP}
    api.create(SECRET, {"metadata": metadata, "type": "Opaque", "data": {_KEY: password}})
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.kubernetes.hooks.password")
    parser.add_argument("--secret", required=True, help="name of the Secret")
    parser.add_argument("--label", action="append", default=[], help="NAME=VALUE, repeatable")
    parser.add_argument("--namespace", default="", help="where; empty for our own")
    arguments = parser.parse_args(argv)
    configure_logging(as_json=True, level=logging.INFO, stream=sys.stderr)
    labels = dict(label.split("=", 1) for label in arguments.label)
    is_new = keep_password(ApiServer.connect(arguments.namespace), arguments.secret, labels)
    story = {"secret": arguments.secret, "made": is_new}
    logger.info("The database has a password", extra=story)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
