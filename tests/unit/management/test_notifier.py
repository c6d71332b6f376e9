"""Which notices are sent, to whom, how often, and what is kept of it."""

from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.notifications import Alert, Channel, Target
from appliance.core.cluster.records import EventRecord
from appliance.core.cluster.run import NOT_FINITE_EVENT
from appliance.core.ids import JobId
from appliance.management.background.notification_channels import DeliveryError, NotifyOptions
from appliance.management.background.notifier import Notifier
from tests.support import management
from tests.support.management import new_job

JOB = JobId("wsjob-a")
MAIL = Target(channel=Channel.EMAIL, address="ada@example.com")
HOOK = Target(channel=Channel.SLACK, address="https://hooks.example.com/s3cret", threshold=4)
ALL_PHASES = (Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING, Phase.SUCCEEDED)


class Post:
    """Takes notices, or refuses them as long as it is told to."""

    def __init__(self):
        self.sent = []
        self.refusal = None

    def __call__(self, target, notice):
        if self.refusal is not None:
            raise self.refusal
        self.sent.append((target.channel, notice.news))


def submit(state, *targets):
    with state.database.batch():
        state.jobs.create(new_job())
        state.notifications.follow(JOB, targets)


def move(state, *phases, since=Phase.QUEUED):
    for phase in phases:
        management.move(state.jobs, JOB, since, phase, message="a reason")
        since = phase


def send_all(state, post, **options):
    """Send what is due with a notifier of its own, as after a restart."""
    notifier = Notifier(state, NotifyOptions(**options), post, lambda job: f"http://page/{job}")
    while state.notifications.gather(state.clock.now()):
        pass
    for delivery in state.notifications.due(state.clock.now(), 100):
        notifier.deliver(delivery)


def reasons(state):
    return [event.reason for event in state.jobs.events(JOB) if event.phase is None]


def test_each_target_hears_of_what_it_wants(state):
    submit(state, MAIL, HOOK)
    move(state, *ALL_PHASES)
    post = Post()
    send_all(state, post)
    assert post.sent == [
        (Channel.SLACK, Phase.RUNNING),
        (Channel.EMAIL, Phase.SUCCEEDED),
        (Channel.SLACK, Phase.SUCCEEDED),
    ]
    assert reasons(state) == ["Notified"] * 3
    send_all(state, post)
    assert len(post.sent) == 3


def test_a_new_job_is_no_news_but_one_that_is_queued_again_is(state):
    submit(state, MAIL)
    post = Post()
    send_all(state, post)
    assert post.sent == []
    move(state, Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING, Phase.QUEUED)
    send_all(state, post)
    assert post.sent == [(Channel.EMAIL, Phase.QUEUED)]


def test_a_loss_that_is_no_number_is_told_before_the_job_ends(state):
    submit(state, MAIL, HOOK, replace(HOOK, threshold=1))
    move(state, Phase.SCHEDULED, Phase.INITIALIZING, Phase.RUNNING)
    for reason in ("SessionEnded", NOT_FINITE_EVENT):
        state.jobs.add_event(
            EventRecord(
                job=JOB,
                at=state.clock.now(),
                reason=reason,
                message="loss is nan at step 7",
                subject=JOB,
                is_warning=True,
            )
        )
    post = Post()
    send_all(state, post)
    assert post.sent == [
        (Channel.SLACK, Phase.RUNNING),
        (Channel.EMAIL, Alert.NOT_FINITE),
        (Channel.SLACK, Alert.NOT_FINITE),
    ]
    move(state, Phase.SUCCEEDED, since=Phase.RUNNING)
    send_all(state, post)
    assert post.sent[3:] == [(Channel.EMAIL, Phase.SUCCEEDED), (Channel.SLACK, Phase.SUCCEEDED)]


def test_a_target_that_does_not_answer_is_tried_again_later_and_later(state, clock):
    submit(state, MAIL)
    move(state, *ALL_PHASES)
    post = Post()
    post.refusal = DeliveryError("no answer", is_final=False)
    for pause in (1.0, 2.0, 4.0):
        send_all(state, post, retry_seconds=1.0)
        clock.advance(pause * 0.9)
        assert state.notifications.due(clock.now(), 10) == []
        clock.advance(pause * 0.2)
        assert len(state.notifications.due(clock.now(), 10)) == 1
    assert reasons(state) == []
    post.refusal = None
    send_all(state, post)
    assert post.sent == [(Channel.EMAIL, Phase.SUCCEEDED)]
    assert reasons(state) == ["Notified"]


@pytest.mark.parametrize(
    ("refusal", "max_attempts"),
    [(DeliveryError("HTTP 404", is_final=True), 9), (DeliveryError("away", is_final=False), 1)],
)
def test_a_notice_that_is_given_up_warns_the_owner_without_a_secret(state, refusal, max_attempts):
    submit(state, HOOK)
    move(state, Phase.CANCELLED)
    post = Post()
    post.refusal = refusal
    send_all(state, post, max_attempts=max_attempts)
    assert state.notifications.next_due() is None
    (event,) = [event for event in state.jobs.events(JOB) if event.phase is None]
    assert (event.reason, event.is_warning) == ("NotificationFailed", True)
    assert "hooks.example.com" in event.message
    assert "s3cret" not in event.message


def test_a_job_that_is_forgotten_is_not_told_of(state):
    submit(state, MAIL)
    move(state, Phase.CANCELLED)
    state.notifications.gather(state.clock.now())
    state.jobs.delete(JOB)
    assert state.notifications.due(state.clock.now(), 10) == []


def test_a_job_that_nobody_follows_costs_nothing(state):
    submit(state)
    move(state, *ALL_PHASES)
    assert state.notifications.gather(state.clock.now()) == 0
