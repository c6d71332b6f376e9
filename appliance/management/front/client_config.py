"""The `config_v2` file, from which a client reads the appliance's address."""

import base64
import json
from pathlib import Path

from appliance.core.cluster.records import DEFAULT_SESSION
from appliance.core.ids import AUTHORITY_SUFFIX
from appliance.files.kept_files import replace_file

_CLUSTER = "wafer-appliance"


def write_client_config(path: Path, *, address: str, authority_pem: bytes | None) -> None:
    """Write the file.

    Args:
        path: Where to; clients are pointed there by `CSCONFIG_PATH`.
        address: host:port of management, as clients reach it.
        authority_pem: Certificate of the appliance's authority; None for plain text. A client that
            finds an empty certificate of its namespace talks plain text; if it found no namespace
            at all, it would warn of both in every run.
    """
    encoded = base64.b64encode(authority_pem or b"").decode()
    namespaces = [{"name": DEFAULT_SESSION, "certificateAuthorityData": encoded}]
    cluster = {
        "name": _CLUSTER,
        "server": address,
        "authority": AUTHORITY_SUFFIX,
        "fabricType": "cs2",
        "namespaces": namespaces,
    }
    config = {
        "currentContext": _CLUSTER,
        "contexts": [{"name": _CLUSTER, "cluster": _CLUSTER}],
        "clusters": [cluster],
    }
    replace_file(path, (json.dumps(config, indent=1) + "\n").encode(), mode=0o666)
