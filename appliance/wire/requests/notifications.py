"""Whom the client's job requests ask to be told."""

from collections.abc import Iterable
from email import headerregistry as mail
from email.errors import HeaderParseError
from urllib.parse import urlsplit

from appliance.core.cluster.notifications import DEFAULT_THRESHOLD, Channel, Target
from appliance.core.errors import UserError
from protos.cluster import cluster_pb2
from protos.cluster.cluster_pb2 import UserNotification

MAX_TARGETS = 32
_MAX_ADDRESS = 2048
_CHANNELS = {
    cluster_pb2.NOTIFICATION_TYPE_EMAIL: Channel.EMAIL,
    cluster_pb2.NOTIFICATION_TYPE_SLACK: Channel.SLACK,
    cluster_pb2.NOTIFICATION_TYPE_PAGERDUTY: Channel.PAGERDUTY,
}


def read_targets(wanted: Iterable[UserNotification]) -> tuple[Target, ...]:
    """Return the targets that a request names, each once.

    Raises:
        UserError: One could never be reached, or there are too many.
    """
    targets = tuple(dict.fromkeys(_target(each) for each in wanted))
    if len(targets) > MAX_TARGETS:
        raise UserError(
            f"The request names {len(targets)} notification targets; at most {MAX_TARGETS} are "
            "possible.",
            hint="Use a mailing list or a channel.",
        )
    return targets


def _target(each: UserNotification) -> Target:
    channel = _CHANNELS.get(each.notification_type)
    if channel is None:
        raise UserError(f"A notification of type {each.notification_type} is unknown.")
    has_threshold = each.HasField("severity_threshold")
    target = Target(
        channel=channel,
        address=each.target.strip(),
        threshold=each.severity_threshold if has_threshold else DEFAULT_THRESHOLD,
    )
    check_target(target)
    return target


def check_target(target: Target) -> None:
    """Make sure that a target has an address of its kind.

    Raises:
        UserError: It has not; the message does not repeat what may be a secret.
    """
    address = target.address
    if not address or len(address) > _MAX_ADDRESS or not address.isprintable() or " " in address:
        raise UserError(f"A notification target for {target.channel.value} is no address.")
    match target.channel:
        case Channel.EMAIL:
            if not _is_one_mail_address(address):
                raise UserError(f"{address!r} is no mail address.", hint="Write name@host.")
        case Channel.SLACK | Channel.WEBHOOK:
            if not _is_url(address):
                raise UserError(
                    f"A notification target for {target.channel.value} is no URL.",
                    hint="Give the whole address of the webhook, with https://.",
                )
        case Channel.PAGERDUTY:
            pass  # a key, which PagerDuty alone can check


def _is_one_mail_address(text: str) -> bool:
    """Whether a text is one mail address and nothing beside it: no list, group, name or route."""
    try:
        return mail.Address(addr_spec=text).addr_spec == text
    except (ValueError, IndexError, HeaderParseError):  # whatever its parser makes of it
        return False


def _is_url(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
