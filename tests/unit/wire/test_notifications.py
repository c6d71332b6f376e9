"""Whom requests ask to be told, and which are refused."""

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.notifications import Channel, Target, wants
from appliance.core.errors import UserError
from appliance.wire.requests.notifications import MAX_TARGETS, read_targets
from protos.cluster import cluster_pb2 as pb

MAIL, SLACK, PAGER = (
    pb.NOTIFICATION_TYPE_EMAIL,
    pb.NOTIFICATION_TYPE_SLACK,
    pb.NOTIFICATION_TYPE_PAGERDUTY,
)
HOOK = "https://hooks.example.com/services/T0/B0/secret"


def wanted(kind, target, **threshold):
    return pb.UserNotification(notification_type=kind, target=target, **threshold)


def test_every_kind_that_the_client_sends_is_understood():
    found = read_targets(
        [wanted(MAIL, "ada@example.com"), wanted(SLACK, HOOK), wanted(PAGER, "k3y")]
    )
    assert [each.channel for each in found] == [Channel.EMAIL, Channel.SLACK, Channel.PAGERDUTY]
    assert {each.threshold for each in found} == {3}


def test_a_target_named_twice_is_told_once():
    twice = wanted(MAIL, "ada@example.com", severity_threshold=2)
    assert len(read_targets([twice, twice])) == 1


@pytest.mark.parametrize(
    ("kind", "target"),
    [(MAIL, "ada"), (SLACK, "ftp://x"), (SLACK, "http://[x"), (PAGER, ""), (MAIL, "a@b\nTo: c@d")],
)
def test_what_can_never_be_reached_is_refused(kind, target):
    with pytest.raises(UserError):
        read_targets([wanted(kind, target)])


@pytest.mark.parametrize(
    "target",
    [
        *("a@b.c,d@e.f", "a@b.c;d@e.f", "a:b@c.d;", "<a@b.c>", "a<b@c.d>", "a,b@c.d"),
        *("@x.y,@z:a@b.c", "a@b.c(d)", "@", "a@", "@b.c", "a@@b.c", "a@b.c>", "a@b.c\\n"),
    ],
)
def test_a_mail_goes_to_one_address_and_nothing_beside_it(target):
    with pytest.raises(UserError, match="is no mail address"):
        read_targets([wanted(MAIL, target)])


@pytest.mark.parametrize("target", ["ada@example.com", "a.b+c@x-y.example", "o'neil@host"])
def test_an_address_that_mail_knows_is_one(target):
    assert [each.address for each in read_targets([wanted(MAIL, target)])] == [target]


def test_a_refusal_does_not_repeat_a_secret():
    with pytest.raises(UserError) as caught:
        read_targets([wanted(SLACK, "hooks.example.com/secret")])
    assert "secret" not in str(caught.value)


def test_too_many_targets_are_refused():
    many = [wanted(MAIL, f"u{number}@example.com") for number in range(MAX_TARGETS + 1)]
    with pytest.raises(UserError, match=str(MAX_TARGETS)):
        read_targets(many)


@pytest.mark.parametrize(
    ("threshold", "phases"),
    [
        (0, set()),
        (1, {Phase.FAILED}),
        (2, {Phase.FAILED, Phase.QUEUED}),
        (3, {Phase.FAILED, Phase.QUEUED, Phase.CANCELLED, Phase.SUCCEEDED}),
        (4, {Phase.FAILED, Phase.QUEUED, Phase.CANCELLED, Phase.SUCCEEDED, Phase.RUNNING}),
    ],
)
def test_a_threshold_lets_through_what_is_at_least_as_urgent(threshold, phases):
    target = Target(channel=Channel.SLACK, address=HOOK, threshold=threshold)
    assert {phase for phase in Phase if wants(target, phase)} == phases


def test_what_is_shown_of_a_target_keeps_its_secret():
    for channel in (Channel.SLACK, Channel.WEBHOOK):
        assert "secret" not in Target(channel=channel, address=HOOK).shown
    assert "k3y" not in Target(channel=Channel.PAGERDUTY, address="k3y").shown
