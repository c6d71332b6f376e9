"""The file of `appliance up --oidc`: at which provider people log in, and what that means."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from appliance.core.cluster.access import UserRole
from appliance.core.errors import UserError
from appliance.management.access.provider_logins import ClaimNames, GroupRole, LoginRules

CALLBACK_PATH = "/api/v1/login/oidc/callback"
"""Where the provider sends people back to."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOptions:
    """An identity provider that speaks OpenID Connect.

    Attributes:
        issuer: Its URL, as its tokens and its discovery document name it. Plain text is for
            loopback alone.
        client_id: As what the appliance is registered there.
        client_secret_file: File with the secret of that registration, read at each login so that it
            can be changed; empty for a public client, which PKCE alone protects.
        shown_name: What the button of the login page calls it.
        scopes: What is asked for.
        redirect_uri: Where the provider sends people back to; empty derives it from the address
            that clients are told.
        authority_file: Certificate authority of the provider (PEM); empty for the system's.
        rules: What the claims of a login mean.
    """

    issuer: str
    client_id: str
    client_secret_file: str = ""
    shown_name: str = "single sign-on"
    scopes: tuple[str, ...] = ("openid", "profile")
    redirect_uri: str = ""
    authority_file: str = ""
    rules: LoginRules = field(default_factory=LoginRules)

    def __post_init__(self) -> None:
        for url in filter(None, (self.issuer, self.redirect_uri)):
            parts = urlsplit(url)
            is_near = parts.hostname in _LOOPBACK
            if not parts.hostname or parts.scheme not in (
                ("https", "http") if is_near else ("https",)
            ):
                raise UserError(
                    f"{url!r} of --oidc is no https:// URL; logins cross the network there.",
                    hint="Plain http:// is for loopback alone.",
                )
        if not self.client_id:
            raise UserError("The file of --oidc names no client_id.")
        if "openid" not in self.scopes:
            raise UserError(f"The scopes {list(self.scopes)} of --oidc lack 'openid'.")
        if self.redirect_uri and urlsplit(self.redirect_uri).path != CALLBACK_PATH:
            raise UserError(
                f"The redirect_uri {self.redirect_uri!r} of --oidc does not lead to "
                f"{CALLBACK_PATH}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one login is known by, from its beginning to its end.

    Attributes:
        state: Comes back from the provider: the answer is to this question.
        nonce: Comes back in the token: it was made for this login.
        verifier: The secret of the challenge: who trades the code is who asked for it.
    """

    state: str
    nonce: str
    verifier: str


def read_provider_options(path: Path) -> ProviderOptions:
    """Read the file of `appliance up --oidc`.

    Raises:
        UserError: It cannot be read, or says something else.
    """
    try:
        fields = yaml.safe_load(path.read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        kind = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise UserError(f"The file {path} of --oidc cannot be read: {kind}.") from None
    try:
        return _options(fields)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise UserError(
            f"The file {path} of --oidc is not of the form that is documented: {error}.",
            hint="See docs/administration.md: issuer, client_id, claims, roles.",
        ) from None


# `Any`: a mapping of a YAML file.
def _options(fields: dict[str, Any]) -> ProviderOptions:
    names = {
        name: fields.pop(name) for name in ("allowed_groups", "email_domain") if name in fields
    }
    if "allowed_groups" in names:
        names["allowed_groups"] = _texts(names["allowed_groups"])
    rules = LoginRules(
        claims=ClaimNames(**fields.pop("claims", {})),
        roles=tuple(_role(each) for each in fields.pop("roles", ())),
        **names,
    )
    if "scopes" in fields:
        fields["scopes"] = _texts(fields["scopes"])
    return ProviderOptions(rules=rules, **fields)


def _role(fields: dict[str, Any]) -> GroupRole:
    known = {"group", "role", "sessions"}
    if strange := sorted(set(fields) - known):
        raise ValueError(f"a role has no field {strange[0]!r}")
    sessions = _texts(fields.get("sessions", ()))
    return GroupRole(group=str(fields["group"]), role=UserRole(fields["role"]), sessions=sessions)


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"{values!r} is no list of texts")
    return tuple(values)
