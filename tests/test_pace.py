"""How often the screen paints."""

from __future__ import annotations

from cutaway.tui.pace import FRAME, SHARE, SLOWEST, SOON, Pace


class Machine:
    """Clocks that the test turns."""

    def __init__(self) -> None:
        self.used = self.now = 0.0

    def pace(self, cores: int) -> Pace:
        return Pace(lambda: self.used, lambda: self.now, cores)


def paints(machine: Machine, pace: Pace, cost: float, count: int = 50) -> float:
    """Paint `count` times at `cost` processor seconds each; returns the share of a core that was used."""
    began, used = machine.now, machine.used
    for _ in range(count):
        machine.used += cost
        machine.now += cost + pace.pause()
    return (machine.used - used) / (machine.now - began)


def test_cheap_paints_come_fifteen_times_a_second() -> None:
    machine = Machine()
    pace = machine.pace(cores=2)
    machine.used += 0.002
    machine.now += FRAME
    assert pace.pause() == FRAME


def test_dear_paints_come_seldom_enough_to_leave_the_cores_to_the_engine() -> None:
    machine = Machine()
    assert paints(machine, machine.pace(cores=2), cost=0.01) <= 2 * SHARE * 1.05


def test_more_cores_allow_more_paints() -> None:
    few, many = Machine(), Machine()
    assert paints(many, many.pace(cores=16), 0.02) > paints(few, few.pace(cores=2), 0.02)


def test_even_the_dearest_paint_is_followed_by_another_soon() -> None:
    machine = Machine()
    pace = machine.pace(cores=1)
    machine.used += 10.0
    assert pace.pause() == SLOWEST


def test_what_is_waited_for_is_painted_at_once() -> None:
    machine = Machine()
    pace = machine.pace(cores=1)
    machine.used += 10.0
    pace.pause()
    assert pace.left() == SLOWEST
    pace.hurry()
    assert pace.left() == SOON
