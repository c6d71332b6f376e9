"""What follows from a change."""

from appliance.management.reconciler.live_jobs import Sequel, run_errands


def test_an_errand_that_fails_does_not_keep_others_from_being_done(caplog):
    done = []

    def fail():
        raise OSError("no space is left")

    run_errands(Sequel(errands=[fail, lambda: done.append("the next")]))
    assert done == ["the next"]
    assert "no space is left" in caplog.text
