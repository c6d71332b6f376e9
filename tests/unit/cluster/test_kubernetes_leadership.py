"""Who may take the lease."""

from appliance.cluster.kubernetes.leadership import may_take, observe


def lease(version, holder, seconds=10):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def test_nobody_s_lease_may_be_taken():
    assert may_take(observe(None, None, now_seconds=0), "me", now_seconds=0)
    assert may_take(observe(lease("1", ""), None, now_seconds=0), "me", now_seconds=0)


def test_another_s_lease_may_be_taken_once_it_has_not_changed_for_its_length():
    first = observe(lease("1", "other"), None, now_seconds=100)
    assert not may_take(first, "me", now_seconds=110)
    again = observe(lease("1", "other"), first, now_seconds=110.5)
    assert may_take(again, "me", now_seconds=110.5)


def test_a_renewed_lease_counts_anew():
    first = observe(lease("1", "other"), None, now_seconds=100)
    renewed = observe(lease("2", "other"), first, now_seconds=109)
    assert not may_take(renewed, "me", now_seconds=115)


def test_what_its_writer_s_clock_says_does_not_count():
    old = lease("1", "other")
    old["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not may_take(observe(old, None, now_seconds=0), "me", now_seconds=1)


def test_one_s_own_lease_may_be_taken_at_any_time():
    assert may_take(observe(lease("1", "me"), None, now_seconds=0), "me", now_seconds=0)
