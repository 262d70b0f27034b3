"""What the command palette lists: names as they are. Textual's own list takes those of presets for markup."""

from __future__ import annotations

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits
from textual.content import Content
from textual.system_commands import SystemCommandsProvider


class Actions(SystemCommandsProvider):
    """The application's commands. An unfinished bracket in a name would end the program otherwise."""

    async def discover(self) -> Hits:
        for title, does, command, shown in sorted(self.app.get_system_commands(self.screen), key=lambda one: one.title):
            if shown:
                yield DiscoveryHit(Text(title), command, title, _as_it_is(does))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, does, command, _ in self.app.get_system_commands(self.screen):
            score, places = matcher.fuzzy_search.match(query, title)
            if score > 0:
                found = Content(title)
                for place in places:
                    if not title[place].isspace():
                        found = found.stylize(matcher.match_style, place, place + 1)
                yield Hit(score, found, command, title, _as_it_is(does))


def _as_it_is(text: str) -> str:
    """Help that is not read as markup: it is declared as a `str`, but `Content` is taken as it is."""
    return Content(text)  # pyright: ignore[reportReturnType]
