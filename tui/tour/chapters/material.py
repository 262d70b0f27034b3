"""Texts and small requests that several chapters share."""

from __future__ import annotations

from ....engine.protocol import Message

PAGE = (
    "You are the keeper of a small museum of science, and you answer visitors. The first room shows light: a prism on "
    "a stand, a lamp behind a slit, and a white wall. Children hold coloured glass into the beam and look at the wall. "
    "The second room shows air: a pump, a glass bell, and a feather that falls like a stone when the bell is empty. "
    "The third room shows water: a tank with a wave maker, and a cork that stays where it is while the waves go by. "
    "In the fourth room stands an old telescope; on clear nights the roof is opened and visitors look at the moon. "
    "Answer in plain words and in one or two sentences, without formulas, and stay with what can be seen."
)
OPENING = Message("system", PAGE)

# (name, question, tokens): company for the reader's own request, short and long.
COMPANY: tuple[tuple[str, str, int], ...] = (
    ("B", "Name three colours.", 8),
    ("C", "Say good morning in French.", 12),
    ("D", "Which is heavier, iron or wood?", 16),
    ("E", "Name a planet with rings.", 16),
    ("F", "What do bees make?", 16),
    ("G", "How many legs has a spider?", 16),
    ("H", "Where do penguins live?", 16),
)
