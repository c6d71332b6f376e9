"""Which records of gangs are known to be gone."""

from appliance.cluster.kubernetes.kubernetes_launcher import Forgotten


def test_only_the_latest_are_kept():
    forgotten = Forgotten(capacity=2)
    for uid in ("a", "b", "b", "c"):
        forgotten.add(uid)
    assert [uid in forgotten for uid in ("a", "b", "c", "d")] == [False, True, True, False]
