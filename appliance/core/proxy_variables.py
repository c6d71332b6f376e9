"""Variables by which programs find an HTTP proxy, and what such a proxy is not to be asked for.

Programs of a site's image or its users may be told of a proxy that leads out of the site. It does
not lead to the appliance, whose names only its cluster knows.
"""

from collections.abc import Mapping, Sequence

_PROXIES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")
_OF_GRPC = "no_grpc_proxy"
"""Where gRPC finds it, it reads no other."""


def names_proxy(environment: Mapping[str, str]) -> bool:
    """Whether an environment names a proxy at all."""
    return any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES)


def past_proxies(environment: Mapping[str, str], hosts: Sequence[str]) -> dict[str, str]:
    """Return an environment in which no proxy is asked for some hosts.

    What it excepts already stays excepted.

    Args:
        environment: Variables by name.
        hosts: Names or addresses; an IPv6 address without brackets.
    """
    changed = dict(environment)
    given = environment.get("no_proxy") or environment.get("NO_PROXY", "")
    for name in _EXCEPTIONS:
        changed[name] = _with(environment.get(name) or given, hosts)
    if of_grpc := environment.get(_OF_GRPC):
        changed[_OF_GRPC] = _with(of_grpc, hosts)
    return changed


def _with(exceptions: str, hosts: Sequence[str]) -> str:
    known = [entry.strip() for entry in exceptions.split(",") if entry.strip()]
    if "*" in known:
        return exceptions
    return ",".join(dict.fromkeys((*known, *hosts)))
