"""The cluster's address: `config_v2`, the JSON file that the Python client reads too.

It names clusters, each with an address, an authority and the sessions (`namespaces`) this user node
may use, each with a certificate. With a certificate the channel is TLS and asks for the host name
`<session>.<authority>`, whatever address it connects to; a cluster without certificates is plain
text, which is for loopback only.
"""

import base64
import binascii
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.core.addresses import bare_host
from appliance.core.errors import UserError

DEFAULT_PATH = Path("/opt/cerebras/config_v2")
DEFAULT_NAMESPACE = "job-operator"

_PATH_VARIABLE = "CSCONFIG_PATH"
_APPLIANCE = "wafer-appliance"
"""Directory of an appliance below the user's data, as `appliance up` has it by default."""
_CERTIFICATE_DATA = "certificateAuthorityData"
_CERTIFICATE_FILE = "certificateAuthority"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How to reach one cluster for one session.

    Attributes:
        cluster: Its name in the config.
        server: Address, `host:port`.
        namespace: The session that commands work in.
        authority: Host name that the server's certificate is for; empty for plain text.
        certificate: PEM of the certificate that signs the server's; None for plain text.
        source: The config file, for messages.
    """

    cluster: str
    server: str
    namespace: str
    authority: str
    certificate: bytes | None
    source: Path

    @property
    def is_loopback(self) -> bool:
        """Whether the address never leaves this machine."""
        host = self.server.removeprefix("ipv4:").removeprefix("ipv6:").rsplit(":", 1)[0]
        host = bare_host(host)
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return self.server.startswith("unix:")


def config_path(given: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the file to read: the flag's, CSCONFIG_PATH's, the usual place's, or the user's own.

    The last is what `appliance up` writes where nothing is said of directories.
    """
    if given is not None:
        return given
    if named := environ.get(_PATH_VARIABLE, ""):
        return Path(named)
    own = _own_path(environ)
    is_own = own is not None and not DEFAULT_PATH.exists() and own.exists()
    return own if own is not None and is_own else DEFAULT_PATH


def _own_path(environ: Mapping[str, str]) -> Path | None:
    """Return the file of the appliance that this user runs on this machine, if there is one."""
    home = environ.get("HOME", "")
    data = environ.get("XDG_DATA_HOME") or (f"{home}/.local/share" if home else "")
    return Path(data) / _APPLIANCE / "config_v2" if data else None


def load_document(path: Path) -> dict[str, Any]:
    """Return the parsed file; `Any`, since it is somebody else's JSON until it is checked.

    Raises:
        UserError: The file is missing, unreadable or not a JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"Config file {path} cannot be read: {error.strerror}.",
            hint=f"Name it with --csconfig or {_PATH_VARIABLE}; `appliance up` prints its path.",
        ) from error
    except ValueError as error:
        raise UserError(
            f"Config file {path} is not JSON: {error}.", hint="Ask for a fresh copy of it."
        ) from error
    if not isinstance(document, dict):
        raise UserError(f"Config file {path} is not a JSON object.", hint="Ask for a fresh copy.")
    return document


def cluster_access(
    document: Mapping[str, Any], *, namespace: str | None, source: Path
) -> ClusterAccess:
    """Return the way to the current context's cluster.

    Args:
        document: The parsed config.
        namespace: The session asked for; None takes the only one there is.
        source: The config file, for messages.

    Raises:
        UserError: A key is missing, the session is not in the config, or it must be named.
    """
    try:
        cluster = _current_cluster(document)
        server, authority = str(cluster["server"]), str(cluster["authority"])
        sessions = {str(entry["name"]): entry for entry in cluster.get("namespaces", [])}
    except (KeyError, TypeError) as error:
        raise UserError(
            f"Config file {source} lacks the key {error}.", hint="Ask for a fresh copy of it."
        ) from error
    certificates = {name: _certificate(entry, source) for name, entry in sessions.items()}
    if namespace and not any(certificates.values()):
        chosen = namespace  # in plain text the cluster alone says what sessions there are
    else:
        chosen = _choose(namespace, tuple(sessions), source)
    certificate = certificates.get(chosen)
    access = ClusterAccess(
        cluster=str(cluster["name"]),
        server=server,
        namespace=chosen,
        authority=f"{chosen}.{authority}" if certificate else "",
        certificate=certificate,
        source=source,
    )
    if certificate is None and not access.is_loopback:
        raise UserError(
            f"Cluster '{access.cluster}' at {server} has no certificate in {source}, and plain "
            "text is for loopback only.",
            hint="Ask for a config with the session's certificate.",
        )
    return access


def with_server(document: dict[str, Any], name: str, server: str) -> str:
    """Set a cluster's address in a document; return what became of the cluster.

    Raises:
        UserError: The document has no list of clusters.
    """
    clusters = document.setdefault("clusters", [])
    if not isinstance(clusters, list) or not all(isinstance(each, dict) for each in clusters):
        raise UserError("The config's clusters are no list.", hint="Ask for a fresh copy of it.")
    for cluster in clusters:
        if cluster.get("name") == name:
            cluster["server"] = server
            return "modified"
    clusters.append({"name": name, "server": server, "authority": "", "namespaces": []})
    return "set"


def without_certificates(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config to show to a person: certificates are long and say nothing."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    for cluster in copy.get("clusters", []):
        for session in cluster.get("namespaces", []):
            if session.get(_CERTIFICATE_DATA):
                session[_CERTIFICATE_DATA] = "OMITTED"
    return copy


def _current_cluster(document: Mapping[str, Any]) -> Mapping[str, Any]:
    contexts = {context["name"]: context for context in document["contexts"]}
    clusters: dict[str, Mapping[str, Any]] = {
        cluster["name"]: cluster for cluster in document["clusters"]
    }
    return clusters[contexts[document["currentContext"]]["cluster"]]


def _choose(namespace: str | None, sessions: tuple[str, ...], source: Path) -> str:
    """Return the session to use; a config without sessions leaves the name to the user."""
    if not sessions:
        return namespace or DEFAULT_NAMESPACE
    if namespace is None and len(sessions) == 1:
        return sessions[0]
    names = ", ".join(sessions)
    if namespace is None:
        raise UserError(
            f"Config file {source} has {len(sessions)} sessions: {names}.",
            hint="Choose one with --namespace.",
        )
    if namespace not in sessions:
        raise UserError(
            f"Session '{namespace}' is not in config file {source}.", hint=f"It has: {names}."
        )
    return namespace


def _certificate(session: Mapping[str, Any], source: Path) -> bytes | None:
    """Return the session's certificate; None where the config holds an empty one."""
    name = session["name"]
    if _CERTIFICATE_DATA in session:
        try:
            return base64.b64decode(session[_CERTIFICATE_DATA], validate=True) or None
        except (binascii.Error, TypeError, ValueError) as error:
            raise UserError(
                f"Session '{name}' in {source} has a certificate that is not base64: {error}.",
                hint="Ask for a fresh copy of the config.",
            ) from error
    if _CERTIFICATE_FILE not in session:
        raise UserError(
            f"Session '{name}' in {source} has neither {_CERTIFICATE_DATA} nor "
            f"{_CERTIFICATE_FILE}.",
            hint="Ask for a fresh copy of the config.",
        )
    path = Path(session[_CERTIFICATE_FILE])
    try:
        return path.read_bytes() or None
    except OSError as error:
        raise UserError(
            f"Certificate {path} of session '{name}' cannot be read: {error.strerror}.",
            hint=f"Put it there, or correct {_CERTIFICATE_FILE} in {source}.",
        ) from error
