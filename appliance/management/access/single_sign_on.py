"""Logins of people whom an identity provider knows, beside logins by token.

What a login is known by travels in a cookie of the browser that began it, sealed with a key of the
appliance, so that any management can end what another began and nothing is kept for strangers. What
comes of it is the same login as a token's: a record that `appliance token list` shows and `revoke`
ends.
"""

import base64
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography.fernet import Fernet, InvalidToken

from appliance.core.clock import Clock
from appliance.core.cluster.access import Account, Action, Target, UserRole
from appliance.core.errors import NotFoundError, UnauthenticatedError
from appliance.management.access.authorization import Access
from appliance.management.access.provider_logins import (
    WantedAccount,
    login_name,
    wanted_account,
)
from appliance.management.access.provider_options import (
    CALLBACK_PATH,
    Attempt,
    ProviderOptions,
    read_provider_options,
)
from appliance.management.access.tokens import LOGIN_SECONDS, Minted

ATTEMPT_SECONDS = 600
"""So long may somebody be at the provider."""

ENTRY_POINT = "oidc"
"""The name of this entry point in the audit trail."""

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A login that has begun.

    Attributes:
        url: Where the browser goes.
        sealed: What its cookie holds.
    """

    url: str
    sealed: str


class Provider(Protocol):
    """Knows people; see `identity_provider`."""

    def authorization_url(self, attempt: Attempt) -> str:
        """Return where a browser goes to log in."""
        ...

    def claims(self, code: str, attempt: Attempt) -> dict[str, Any]:
        """Exchange an authorization code for the person's claims."""
        ...


class SingleSignOn:
    """Begins and ends logins at an identity provider.

    Args:
        options: What logins mean.
        provider: Whom to ask.
        access: Keeps accounts, mints logins.
        clock: Tells how old an attempt is.
    """

    def __init__(
        self, options: ProviderOptions, provider: Provider, access: Access, clock: Clock
    ) -> None:
        self._options, self._provider = options, provider
        self._access, self._clock = access, clock
        self._box = Fernet(base64.urlsafe_b64encode(access.tokens.derived_key("oidc")))

    @property
    def shown_name(self) -> str:
        """What the button of the login page calls the provider."""
        return self._options.shown_name

    def begin(self, page: str) -> Begun:
        """Begin a login; raises `ClusterError` if the provider does not answer.

        Args:
            page: Path of the page to show afterwards.
        """
        attempt = Attempt(
            state=secrets.token_urlsafe(_SECRET_BYTES),
            nonce=secrets.token_urlsafe(_SECRET_BYTES),
            verifier=secrets.token_urlsafe(_SECRET_BYTES),
        )
        url = self._provider.authorization_url(attempt)
        text = json.dumps({**asdict(attempt), "page": page}).encode()
        return Begun(url=url, sealed=self._box.encrypt_at_time(text, self._seconds()).decode())

    def finish(
        self, *, sealed: str, state: str, code: str, peer_uid: int | None, issuer: str = ""
    ) -> tuple[Minted, str]:
        """End a login.

        Args:
            sealed: What the browser's cookie holds.
            state: What came back from the provider.
            code: The same.
            peer_uid: Whose connection it came by.
            issuer: Who the answer says that it is of (RFC 9207); empty if it does not say.

        Returns:
            A login, and the path of the page to show.

        Raises:
            UnauthenticatedError: It is not the end of a login that this browser began, or the
                provider does not vouch for anybody.
            ForbiddenError: Who logs in may not.
        """
        attempt, page = self._open(sealed)
        if not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise _not_begun("this answer of the identity provider is to another question")
        if issuer and issuer != self._options.issuer:
            raise _not_begun(f"this answer is of another identity provider, {issuer[:100]!r}")
        claims = self._provider.claims(code, attempt)
        account = self._find(login_name(self._options.rules, claims))
        wanted = wanted_account(
            self._options.rules, claims, account, operator=self._access.operator.user
        )
        self._become(wanted, account)
        label = f"{ENTRY_POINT} {claims.get('sub', '')}"[:200]
        parent = self._access.tokens.mint(wanted.name, label=label, seconds=LOGIN_SECONDS)
        return self._access.tokens.log_in(parent.text, peer_uid), page

    def _open(self, sealed: str) -> tuple[Attempt, str]:
        try:
            text = self._box.decrypt_at_time(
                sealed.encode(), ttl=ATTEMPT_SECONDS, current_time=self._seconds()
            )
        except InvalidToken:
            raise _not_begun("this browser has begun no login in the last ten minutes") from None
        fields = json.loads(text)
        page = fields.pop("page")
        return Attempt(**fields), page

    def _find(self, name: str) -> Account | None:
        try:
            return self._access.load_account(name)
        except NotFoundError:
            return None

    def _become(self, wanted: WantedAccount, account: Account | None) -> None:
        """Make or change the account, where it is not as it is wanted, and write that down."""
        if account is None:
            self._change(
                wanted,
                lambda: self._access.create_account(
                    wanted.name,
                    uid=wanted.uid,
                    gid=wanted.gid,
                    role=wanted.role or UserRole.USER,
                    sessions=wanted.sessions,
                ),
            )
        elif wanted.role is not None and (wanted.role, wanted.sessions) != (
            account.role,
            tuple(sorted(account.sessions)),
        ):
            self._change(
                wanted,
                lambda: self._access.change_account(
                    wanted.name, role=wanted.role, sessions=wanted.sessions
                ),
            )

    def _change(self, wanted: WantedAccount, make: Callable[[], object]) -> None:
        target = Target(kind="user", name=wanted.name)
        detail = f"uid {wanted.uid}, gid {wanted.gid}, {wanted.role}"
        with self._access.change(
            self._access.operator,
            Action.MANAGE_USERS,
            target,
            entry_point=ENTRY_POINT,
            detail=detail,
        ):
            make()

    def _seconds(self) -> int:
        return int(self._clock.now().timestamp())


def _not_begun(why: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"The login cannot be ended: {why}.", hint="Log in again.")


def open_single_sign_on(file: str, root: str, access: Access, clock: Clock) -> SingleSignOn:
    """Return the logins that a file of `appliance up --oidc` describes.

    Args:
        file: Path of the file.
        root: URL of the appliance, as browsers reach it, unless the file says another.
        access: Keeps accounts, mints logins.
        clock: Gives the time.

    Raises:
        UserError: The file is not of the form that is documented.
    """
    # Half a second of imports, which only an appliance with a provider pays.
    from appliance.management.access.identity_provider import (  # noqa: PLC0415
        IdentityProvider,
    )

    options = read_provider_options(Path(file))
    redirect_uri = options.redirect_uri or f"{root}{CALLBACK_PATH}"
    return SingleSignOn(options, IdentityProvider(options, redirect_uri, clock), access, clock)
