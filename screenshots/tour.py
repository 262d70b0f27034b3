"""The README's pictures of the tour: chapters of the recorded tour after both of their runs. `make.py` makes them."""

from __future__ import annotations

from tests.tour_scenes import TourScene

PICTURES: dict[str, TourScene] = {
    "tour": TourScene(4, (160, 44), answer="1"),
    "tour-80x24": TourScene(3, (80, 24), answer="3"),
}
