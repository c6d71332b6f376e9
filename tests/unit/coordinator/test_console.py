"""Lines for the user's console."""

from appliance.coordinator.console import Console, Topic


def test_lines_come_in_order_and_each_once() -> None:
    console = Console()
    console.write(Topic.COMPILE, "one")
    console.write(Topic.COMPILE, "two", hint="do this", is_warning=True)
    first, second = (console.next_line(Topic.COMPILE, 0.0) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.msg, second.msg, second.action) == ("one", "two", "do this")
    assert console.next_line(Topic.COMPILE, 0.0) is None


def test_a_line_waits_for_a_caller_who_is_still_there() -> None:
    console = Console()
    console.write(Topic.STALL, "starving")
    assert console.next_line(Topic.STALL, 0.0, lambda: False) is None
    line = console.next_line(Topic.STALL, 0.0)
    assert line is not None
    assert line.msg == "starving"
