"""Sends notifications: by mail, Slack and compatible services, PagerDuty, any webhook.

Every messenger waits at most `TIMEOUT_SECONDS` for each answer, follows no redirection, and never
puts a secret address into an error. A target that a user names must have an address that such
targets may have (`target_addresses`); those of the appliance's own file may be anywhere.
"""

import html
import logging
import re
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from ipaddress import ip_network
from pathlib import Path
from typing import Any, assert_never

import httpx
import yaml

from appliance.core.cluster.notifications import Alert, Channel, Notice, Target, severity_of
from appliance.core.errors import UserError
from appliance.management.background.target_addresses import (
    NotAllowedError,
    TargetAddresses,
)
from appliance.wire.networks import Network
from appliance.wire.requests.notifications import check_target

TIMEOUT_SECONDS = 10.0
_MENTION = re.compile(r"@(?=all\b|channel|everyone|here)|(?<!\w)@(?=\w)", re.IGNORECASE)
_LINK = re.compile(r"\](?=\s*[(\[:])")
_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_PAGERDUTY_SEVERITIES = {1: "critical", 2: "error", 3: "warning"}
_OVERLOADED = (408, 425, 429)
_PORTS = {"http": 80, "https": 443}
_NOT_TAKEN = "it did not take the notice"
_NOT_ALLOWED = (
    "it has an address that is not public; an administrator may allow it (allowed_networks of "
    "`appliance up --notify`)"
)


class DeliveryError(Exception):
    """A notice did not reach its target.

    Its text is for the job's user. What the target answered is not: it would let users look
    around in networks that the appliance can reach and they cannot.

    Attributes:
        is_final: Whether trying again cannot help.
        detail: What happened, for the log alone.
    """

    def __init__(self, reason: str, *, is_final: bool, detail: str = "") -> None:
        super().__init__(reason)
        self.is_final, self.detail = is_final, detail or reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail is handed in.

    Attributes:
        host: Its name.
        sender: Address that mail comes from.
        user: Whom to log in as; empty for nobody.
        password_file: File with the password, read at each delivery so that it can be changed.
        has_tls: Whether to begin TLS (STARTTLS); a password needs it, unless the host is loopback.
    """

    host: str
    port: int = 25
    sender: str = "wafer-appliance@localhost"
    user: str = ""
    password_file: str = ""
    has_tls: bool = False

    def __post_init__(self) -> None:
        is_near = self.host in ("localhost", "127.0.0.1", "::1")
        if self.user and not (self.has_tls or is_near):
            raise UserError(
                f"The password of {self.user} would go to {self.host} unencrypted.",
                hint="Set has_tls: true below mail.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyOptions:
    """How an appliance sends notifications about jobs.

    Attributes:
        mail: Where mail is handed in; None if none can be sent.
        targets: Told of every job, beside those whom its own request names.
        pagerduty_url: Where PagerDuty takes events.
        allowed_networks: Where targets that users name may be, beside public addresses.
        retry_seconds: Time until the second attempt; doubled from attempt to attempt.
        max_attempts: A notice is given up after so many.
        authority_file: Certificate authorities (PEM) of targets and of the mail server, beside the
            public ones and those of this system; empty for none.
    """

    mail: MailServer | None = None
    targets: tuple[Target, ...] = ()
    pagerduty_url: str = _PAGERDUTY
    allowed_networks: tuple[Network, ...] = ()
    retry_seconds: float = 5.0
    max_attempts: int = 9
    authority_file: str = ""

    def __post_init__(self) -> None:
        if not self.retry_seconds > 0 or self.max_attempts < 1:
            raise UserError(
                f"Notices cannot be tried {self.max_attempts} times, {self.retry_seconds} seconds "
                "apart; both are above 0."
            )
        if self.authority_file:
            self.trust()  # so that a file that cannot be read is told at the start

    def trust(self) -> ssl.SSLContext:
        """Return what servers are known by: the public authorities, the system's and the site's.

        Raises:
            UserError: The file of the site's cannot be read.
        """
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
        try:
            if self.authority_file:
                context.load_verify_locations(cafile=self.authority_file)
        except OSError as error:
            raise UserError(
                f"The authority_file {self.authority_file} of --notify cannot be read: {error}.",
                hint="It holds certificates of authorities in PEM.",
            ) from error
        return context


def read_notify_options(path: Path) -> NotifyOptions:
    """Read the file of `appliance up --notify`.

    Raises:
        UserError: It cannot be read, or says something else; secrets in it are not repeated.
    """
    try:
        fields = yaml.safe_load(path.read_text()) or {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        kind = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise UserError(f"The notification file {path} cannot be read: {kind}.") from None
    try:
        mail = MailServer(**fields.pop("mail")) if "mail" in fields else None
        targets = tuple(_target(each) for each in fields.pop("targets", ()))
        allowed = tuple(ip_network(each) for each in fields.pop("allowed_networks", ()))
        return NotifyOptions(mail=mail, targets=targets, allowed_networks=allowed, **fields)
    except (TypeError, AttributeError, KeyError, ValueError):
        raise UserError(
            f"The notification file {path} is not of the form that is documented.",
            hint="See docs/notifications.md: mail, targets, allowed_networks, pagerduty_url, "
            "retry_seconds, max_attempts, authority_file.",
        ) from None


# `Any`: a mapping of a YAML file.
def _target(fields: dict[str, Any]) -> Target:
    target = Target(**{**fields, "channel": Channel(fields["channel"])})
    check_target(target)
    return target


class Messengers:
    """Sends notices.

    Args:
        options: See `NotifyOptions`.
        addresses: Looks targets up; None has the system do so.
    """

    def __init__(self, options: NotifyOptions, addresses: TargetAddresses | None = None) -> None:
        self._options = options
        self._addresses = addresses or TargetAddresses(options.allowed_networks)
        for name in ("httpx", "httpcore"):  # they log whole addresses, which are secrets
            logging.getLogger(name).setLevel(logging.WARNING)
        self._http = httpx.Client(
            timeout=TIMEOUT_SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=options.trust(),
            # One connection each: by their addresses alone two names of one server are one place.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def send(self, target: Target, notice: Notice) -> None:
        """Notify one target.

        Raises:
            DeliveryError: It was not reached, or did not take the notice.
        """
        match target.channel:
            case Channel.EMAIL:
                self._mail(target, notice)
            case Channel.SLACK:
                self._post_to(target, {"text": _obeyed_by_no_chat(notice.text)})
            case Channel.WEBHOOK:
                self._post_to(target, _whole(notice))
            case Channel.PAGERDUTY:
                self._post(self._options.pagerduty_url, _incident(target.address, notice))
            case _:
                assert_never(target.channel)

    def _post_to(self, target: Target, body: dict[str, Any]) -> None:
        if target in self._options.targets:
            self._post(target.address, body)
            return
        try:
            url = httpx.URL(target.address)
            host = url.raw_host.decode("ascii")
            pinned = self._addresses.pin(host, url.port or _PORTS[url.scheme])
        except NotAllowedError:
            raise DeliveryError(_NOT_ALLOWED, is_final=True) from None
        except (httpx.InvalidURL, OSError, UnicodeError, KeyError) as error:
            detail = f"no address ({type(error).__name__})"
            raise DeliveryError(_NOT_TAKEN, is_final=False, detail=detail) from None
        self._post(url.copy_with(host=pinned), body, name=host, netloc=url.netloc)

    def _post(
        self, url: httpx.URL | str, body: dict[str, Any], *, name: str = "", netloc: bytes = b""
    ) -> None:
        """Send a body.

        Args:
            url: Where to.
            body: As JSON.
            name: Whose certificate is wanted, where `url` has an address in its place.
            netloc: Whom the request names then.
        """
        headers = {b"host": netloc} if netloc else {}
        extensions = {"sni_hostname": name} if name else {}
        try:
            with self._http.stream(
                "POST", url, json=body, headers=headers, extensions=extensions
            ) as answer:
                pass  # only the status counts; a body might be endless
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Its text may hold the address.
            detail = f"no answer ({type(error).__name__})"
            raise DeliveryError(_NOT_TAKEN, is_final=False, detail=detail) from None
        status = answer.status_code
        if answer.is_success:
            return
        is_final = status < 500 and status not in _OVERLOADED
        raise DeliveryError(_NOT_TAKEN, is_final=is_final, detail=f"it answered HTTP {status}")

    def _mail(self, target: Target, notice: Notice) -> None:
        server = self._options.mail
        if server is None:
            raise DeliveryError(
                "this appliance has no mail server; name one with `appliance up --notify`",
                is_final=True,
            )
        try:
            _hand_in(server, _letter(server.sender, target.address, notice), self._options)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            reason = f"the mail server refused the address with {codes[0]}"
            raise DeliveryError(reason, is_final=codes[0] >= 500) from None
        except smtplib.SMTPResponseException as error:
            reason = f"the mail server answered {error.smtp_code}"
            raise DeliveryError(reason, is_final=error.smtp_code >= 500) from None
        except (smtplib.SMTPException, OSError) as error:
            raise DeliveryError(
                f"no mail server ({type(error).__name__})", is_final=False
            ) from None


def _hand_in(server: MailServer, letter: EmailMessage, options: NotifyOptions) -> None:
    with smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_SECONDS) as session:
        if server.has_tls:
            session.starttls(context=options.trust())
        if server.user:
            password = Path(server.password_file).read_text().strip()
            session.login(server.user, password)
        session.send_message(letter)


def _letter(sender: str, recipient: str, notice: Notice) -> EmailMessage:
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = sender, recipient, notice.subject
    letter["Auto-Submitted"] = "auto-generated"
    letter["X-Wafer-Job"] = notice.job
    letter.set_content(f"{notice.text}\n")
    return letter


def _obeyed_by_no_chat(text: str) -> str:
    """Return a text that calls nobody, and in which no link has another text than its own.

    Slack obeys `<!channel>` and `<https://...|text>`; those like it obey `@channel`, `@everyone`
    and `[text](https://...)`, which are cut by a space that is not seen.
    """
    cut = _MENTION.sub("@\u200b", html.escape(text, quote=False))
    return _LINK.sub("]\u200b", cut)


def _whole(notice: Notice) -> dict[str, Any]:
    return {
        "job": notice.job,
        "type": notice.type,
        "user": notice.user,
        "session": notice.session,
        "labels": dict(notice.labels),
        "phase": notice.phase.value,
        "alert": notice.news.value if isinstance(notice.news, Alert) else "",
        "severity": severity_of(notice.news),
        "message": notice.message,
        "at": notice.at,
        "url": notice.url,
        "text": notice.text,
    }


def _incident(key: str, notice: Notice) -> dict[str, Any]:
    """Return an event of PagerDuty's Events API, version 2; events of a job are one incident."""
    severity = _PAGERDUTY_SEVERITIES.get(severity_of(notice.news) or 0, "info")
    return {
        "routing_key": key,
        "event_action": "trigger",
        "dedup_key": notice.job,
        "payload": {
            "summary": notice.subject,
            "source": "wafer-appliance",
            "severity": severity,
            "timestamp": notice.at,
            "custom_details": {"message": notice.message, "session": notice.session},
        },
        "links": [{"href": notice.url, "text": notice.job}],
    }


Send = Callable[[Target, Notice], None]
"""`Messengers.send`, or what a test has instead."""
