"""Who is the appliance of a data directory, while others look."""

import contextlib
import threading

import pytest

from appliance.core.errors import ConflictError
from appliance.management.store.instance import Instance


@contextlib.contextmanager
def somebody_looking(data_dir):
    begun, is_over = threading.Event(), threading.Event()

    def look():
        while not is_over.is_set():
            Instance(data_dir).is_running()
            begun.set()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_second_appliance_of_a_data_directory_is_refused(tmp_path):
    assert not Instance(tmp_path).is_running()
    Instance(tmp_path).acquire()
    assert Instance(tmp_path).is_running()
    with pytest.raises(ConflictError, match="already runs on"):
        Instance(tmp_path).acquire()


def test_whoever_only_looks_keeps_nobody_from_starting(tmp_path):
    for number in range(50):
        data_dir = tmp_path / str(number)
        data_dir.mkdir()
        (data_dir / "appliance.lock").touch()
        with somebody_looking(data_dir):
            Instance(data_dir).acquire()
