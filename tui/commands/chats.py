"""`cutaway chats`: what was kept, found, shown, renamed, taken away, and carried in and out."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ..state.keeping import Listed
from ..store import export as exporting
from ..store import imports
from ..store.chats import ChatStore
from ..store.errors import StoreError
from ..store.records import Chat, now_ms
from . import completing, exits, kept
from .models import Actions
from .output import Output

PAGE = 20


@click.group("chats", cls=Actions)
def command() -> None:
    """List, search, show, rename, delete, export and import chats.

    CHAT is a chat's key as the list shows it, the beginning of one (four characters or more), or "last". Messages have
    numbers in the order in which they were said, all branches together; `show` tells them.

    \b
    Examples:
      cutaway chats                           the last ones
      cutaway chats search lighthouse
      cutaway chats export last -o sky.md     one chat as Markdown
      cutaway chats export -o all.json        all of them, as `import` reads them
      cutaway chats import conversations.json
    """


@command.command("list")
@click.option("--number", "-n", type=click.IntRange(min=1), default=PAGE, show_default=True, help="Chats to list.")
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Leave out this many, the newest.")
@click.option("--deleted", is_flag=True, help="List those that can be brought back.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a chat.")
def list_(number: int, skip: int, deleted: bool, as_json: bool) -> int:
    """List the chats, the one changed last first."""
    with kept.chats() as store:
        _tell(store.database.listed(number, skip, deleted), as_json)
        more = 0 if deleted else store.database.count() - skip - number
    if more > 0 and not as_json:
        exits.say(f"{more:,} more: --number or --skip shows them.")
    return exits.OK


@command.command("search", short_help="Find chats that hold all WORDS.")
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--in", "chat", metavar="CHAT", shell_complete=completing.chats, help="Search one chat, and list the messages."
)
@click.option("--number", "-n", type=click.IntRange(min=1), default=PAGE, show_default=True, help="Chats to list.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a chat.")
def search(words: tuple[str, ...], chat: str | None, number: int, as_json: bool) -> int:
    """Find chats whose title or messages hold all WORDS; a "phrase" in quotes holds together."""
    text = " ".join(words)
    with kept.chats() as store:
        if chat is None:
            found = store.find(text, number)
            _tell(found, as_json)
            return exits.OK if found else exits.FAILED
        loaded = _loaded(store, chat)
        places = {message.number: place for place, message in enumerate(loaded.messages, 1)}
        passages = store.database.passages(text, loaded.record.key)
    output = Output()
    for message, around in passages[:number]:
        if as_json:
            output.write(msgspec.json.encode({"message": places[message], "found": around}).decode() + "\n")
        else:
            output.write(f"[{places[message]}]  {around}\n")
    return exits.OK if passages else exits.FAILED


@command.command("show")
@click.argument("chat", default=kept.LAST, shell_complete=completing.chats)
@click.option("--branch", type=click.IntRange(min=1), metavar="N", help="The branch through message N.")
def show(chat: str, branch: int | None) -> int:
    """Show CHAT, the last one if not told which, as it was left."""
    with kept.chats() as store:
        loaded = _loaded(store, chat)
    places = {message.number: place for place, message in enumerate(loaded.messages, 1)}
    output = Output()
    output.write(f"{loaded.record.key}  {' '.join(loaded.record.title.split())}\n")
    if loaded.record.system.strip():
        output.write(f"\nsystem\n{loaded.record.system.rstrip()}\n")
    for message in exporting.path(loaded, _number(loaded, branch)):
        beside = [places[m.number] for m in loaded.messages if m.parent == message.parent and m is not message]
        others = f"  (other versions: {', '.join(map(str, beside))})" if beside else ""
        who = message.model if message.role == "assistant" and message.model else message.role
        output.write(f"\n[{places[message.number]}] {who}{others}\n{message.text.rstrip()}\n")
    return exits.OK


@command.command("rename")
@click.argument("chat", shell_complete=completing.chats)
@click.argument("title", nargs=-1, required=True)
def rename(chat: str, title: tuple[str, ...]) -> int:
    """Give CHAT another title."""
    with kept.chats(changed=True) as store:
        conversation = store.open(kept.chosen(store, chat))
        assert conversation is not None
        store.rename(conversation, " ".join(" ".join(title).split()))
    return exits.OK


@command.command("delete")
@click.argument("chats", nargs=-1, required=True, metavar="CHAT...", shell_complete=completing.chats)
@click.option("--for-good", is_flag=True, help="Also everything deleted before, with no way back.")
def delete(chats: tuple[str, ...], for_good: bool) -> int:
    """Take chats away. For 30 days `undelete` brings them back."""
    with kept.chats(changed=True) as store:
        for key in [kept.chosen(store, chat) for chat in chats]:
            store.delete_key(key)
            undo = "" if for_good else f" `cutaway chats undelete {key}` brings it back."
            exits.say(f"{key} is deleted.{undo}")
        store.flush()
        if for_good:
            exits.say(f"{store.database.purge(now_ms() + 1)} chats are gone for good.")
    return exits.OK


@command.command("undelete")
@click.argument("chat", default="")
def undelete(chat: str) -> int:
    """Bring CHAT back, or the one that was deleted last."""
    with kept.chats(changed=True) as store:
        back = store.undelete(kept.chosen(store, chat) if chat else "")
        if back is None:
            raise StoreError("There is no deleted chat.")
        exits.say(f"{back.key}  {back.title}")
    return exits.OK


@command.command("export", short_help="Write CHATs, or all, as JSON or Markdown.")
@click.argument("chats", nargs=-1, metavar="[CHAT]...", shell_complete=completing.chats)
@click.option("--format", "form", type=click.Choice(["json", "markdown"]), help="[default: by the name of the file]")
@click.option("--branch", type=click.IntRange(min=1), metavar="N", help="Only the branch through message N.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="A file, not standard output.")
def export(chats: tuple[str, ...], form: str | None, branch: int | None, output: Path | None) -> int:
    """Write CHATs, or all of them, as JSON (which `import` reads back) or as Markdown."""
    if branch is not None and len(chats) != 1:
        raise click.UsageError("--branch needs the one CHAT that it is a branch of.")
    form = form or ("markdown" if output is not None and output.suffix.lower() in (".md", ".markdown") else "json")
    with kept.chats() as store:
        keys = [kept.chosen(store, chat) for chat in chats] if chats else store.database.keys()
        found = [chat for key in keys if (chat := store.load(key)) is not None]
    if branch is not None:
        found = [exporting.branch(found[0], _number(found[0], branch))]
    data = (
        exporting.to_json(found)
        if form == "json"
        else "\n".join(exporting.to_markdown(chat) for chat in found).encode()
    )
    if output is None:
        Output().write(data.decode())
    else:
        _put(output, data)
        exits.say(f"{len(found):,} chat{'' if len(found) == 1 else 's'} written to {output}.")
    return exits.OK


@command.command("import", short_help="Take chats from files, also of other programs.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
def import_(files: tuple[Path, ...]) -> int:
    """Take chats from files: our own JSON, ChatGPT's export (conversations.json or the zip file), Open WebUI's."""
    with kept.chats() as store:
        for file in files:
            came = imports.bring_in(store, imports.read_file(file), str(file))
            told = [f"{len(came.keys):,} chat{'' if len(came.keys) == 1 else 's'} imported"]
            told += [f"{came.known:,} were here already"] if came.known else []
            told += [f"{came.left_out:,} messages that are no text left out"] if came.left_out else []
            exits.say(f"{file}: {', '.join(told)}.")
    return exits.OK


def _tell(found: list[Listed], as_json: bool) -> None:
    output = Output()
    for item in found:
        if as_json:
            output.write(msgspec.json.encode(item).decode() + "\n")
            continue
        output.write(f"{item.key}  {item.when:<16}  {item.messages:>4}  {' '.join(item.title.split())}\n")
        if item.found:
            output.write(f"          {item.found}\n")
    if not found:
        exits.say("No chat found.")


def _loaded(store: ChatStore, name: str) -> Chat:
    chat = store.load(kept.chosen(store, name))
    if chat is None:
        raise StoreError(f"There is no chat {name!r}.")
    return chat


def _number(chat: Chat, place: int | None) -> int:
    """The number in the store of the message that the reader calls `place`."""
    if place is None:
        return 0
    if place > len(chat.messages):
        raise StoreError(f"There is no message {place}; this chat has {len(chat.messages)}.")
    return chat.messages[place - 1].number


def _put(path: Path, data: bytes) -> None:
    """Write the file whole or not at all. Raises `StoreError`."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise StoreError(f"{path} can't be written: {error.strerror or error}.") from None
