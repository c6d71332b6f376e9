"""The feed of changes: followers miss nothing without being told."""

import asyncio

from appliance.management.changes.watch import ChangeFeed, Notice, Topic


def jobs(feed: ChangeFeed, *names: str) -> None:
    for name in names:
        feed.publish(Topic.JOB, name)


def test_a_follower_gets_each_object_once_in_the_order_of_its_last_change():
    feed = ChangeFeed()
    jobs(feed, "a", "b", "a")
    feed.publish(Topic.QUEUE)
    news = feed.since(0)
    assert news.notices == (
        Notice(Topic.JOB, "b"),
        Notice(Topic.JOB, "a"),
        Notice(Topic.QUEUE, ""),
    )
    assert (news.position, news.has_missed) == (4, False)
    assert feed.since(news.position).notices == ()


def test_a_follower_that_the_ring_has_passed_is_told():
    feed = ChangeFeed(capacity=2)
    jobs(feed, "a", "b", "c")
    assert feed.since(0).has_missed
    assert not feed.since(1).has_missed
    assert [notice.name for notice in feed.since(1).notices] == ["b", "c"]


def test_marks_of_another_start_and_of_the_future_are_unknown():
    feed = ChangeFeed(epoch="one")
    jobs(feed, "a")
    assert feed.position_of(feed.mark(1)) == 1
    for mark in ("two-1", "one-2", "one", "one-x", "", "one--1"):
        assert feed.position_of(mark) is None, mark


def test_a_change_wakes_every_waiting_follower():
    async def follow() -> list[bool]:
        feed = ChangeFeed()
        followers = [asyncio.ensure_future(feed.wait(0, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        jobs(feed, "a")
        return await asyncio.gather(*followers)

    assert asyncio.run(follow()) == [True, True, True]


def test_a_quiet_time_ends_the_wait_and_closing_does_too():
    async def wait() -> tuple[bool, bool]:
        feed = ChangeFeed()
        quiet = await feed.wait(0, 0.01)
        waiting = asyncio.ensure_future(feed.wait(0, 10))
        await asyncio.sleep(0)
        feed.close()
        return quiet, await waiting

    assert asyncio.run(wait()) == (False, True)
