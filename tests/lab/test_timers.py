"""Calls that are due later."""

from tests.waiting import until
from tonnage.lab.timers import Timers


def test_calls_come_in_the_order_in_which_they_are_due() -> None:
    timers, called = Timers(), list[str]()
    timers.after(0.2, lambda: called.append("last"))
    timers.after(0.1, lambda: called.append("middle"))
    timers.after(0.0, lambda: called.append("first"))
    until(lambda: len(called) == 3, "a call is missing")
    assert called == ["first", "middle", "last"]
    timers.stop()


def test_nothing_is_called_after_the_end() -> None:
    timers, called = Timers(), list[str]()
    timers.after(0.05, lambda: called.append("late"))
    timers.stop()
    timers._thread.join()
    assert not called
