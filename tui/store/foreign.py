"""Chats that other programs have exported, as trees of our records: ChatGPT's `conversations.json`, Open WebUI's.

Both keep a chat as a map of nodes that name their parents. Fields were read off such exports; what is missing or of
another type is taken for absent, since neither format is specified by its makers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from .records import Chat, ChatRecord, MessageRecord, new_key

_ROLES = ("system", "user", "assistant")


@dataclasses.dataclass
class Foreign:
    """A node of a foreign tree; one without a message is passed over, and its children stand in its place."""

    parent: str
    message: MessageRecord | None
    children: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Read:
    """What an import found; `left_out` counts messages that are no text: tools' and files'."""

    chats: list[Chat] = dataclasses.field(default_factory=list)
    left_out: int = 0


# ---------------------------------------------------------------------------------------------- ChatGPT


def looks_like_chatgpt(chats: list[Any]) -> bool:
    return any(isinstance(chat, dict) and isinstance(chat.get("mapping"), dict) for chat in chats)


def from_chatgpt(chats: list[Any]) -> Read:
    """The conversations of ChatGPT's export."""
    read = Read()
    for chat in chats:
        if not isinstance(chat, dict):
            continue
        mapping = _map(chat, "mapping")
        nodes: dict[str, Foreign] = {}
        for name, node in mapping.items():
            if isinstance(node, dict):
                message = _chatgpt_message(node.get("message"), read)
                nodes[name] = Foreign(_text(node, "parent"), message, _names(node.get("children")))
        source = _text(chat, "conversation_id") or _text(chat, "id")
        record = ChatRecord(
            new_key(),
            _text(chat, "title") or "imported chat",
            named=True,
            made_ms=_ms(chat.get("create_time")),
            changed_ms=_ms(chat.get("update_time")) or _ms(chat.get("create_time")),
            source=f"chatgpt:{source}" if source else "",
        )
        read.chats.append(planted(record, nodes, _text(chat, "current_node")))
    return read


def _chatgpt_message(message: Any, read: Read) -> MessageRecord | None:
    if not isinstance(message, dict):
        return None
    role = _text(_map(message, "author"), "role")
    metadata = _map(message, "metadata")
    text = _chatgpt_text(_map(message, "content"))
    if metadata.get("is_visually_hidden_from_conversation") or (role == "system" and not text.strip()):
        return None
    if role not in _ROLES or not text.strip():
        read.left_out += bool(role)
        return None
    reply = role == "assistant"
    return MessageRecord(
        0,
        role,
        text,
        made_ms=_ms(message.get("create_time")),
        status="end" if reply else "",
        model=_text(metadata, "model_slug") if reply else "",
    )


def _chatgpt_text(content: dict[str, Any]) -> str:
    if content.get("content_type") == "code":
        return f"```{_text(content, 'language').replace('unknown', '')}\n{_text(content, 'text')}\n```"
    if content.get("content_type") in ("text", "multimodal_text"):
        parts = content.get("parts")
        texts = [_chatgpt_part(part) for part in parts] if isinstance(parts, list) else []
        return "\n\n".join(text for text in texts if text)
    return ""


def _chatgpt_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = _text(part, "content_type") if isinstance(part, dict) else ""
    return f"[{kind.removesuffix('_asset_pointer') or 'a file'} that is not in the text]"


# -------------------------------------------------------------------------------------------- Open WebUI


def looks_like_open_webui(chats: list[Any]) -> bool:
    return any(isinstance(chat, dict) and (_webui_map(chat) or _webui_list(chat)) for chat in chats)


def from_open_webui(chats: list[Any]) -> Read:
    """The chats of Open WebUI's export: all of them, or one."""
    read = Read()
    for chat in chats:
        if not isinstance(chat, dict):
            continue
        inner = _map(chat, "chat") or chat
        messages = _webui_map(chat)
        current = _text(_map(inner, "history"), "currentId")
        if not messages:
            messages, current = _in_a_row(_webui_list(chat))
        nodes: dict[str, Foreign] = {}
        for name, message in messages.items():
            if isinstance(message, dict):
                made = _webui_message(message, read)
                nodes[name] = Foreign(_text(message, "parentId"), made, _names(message.get("childrenIds")))
        source = _text(chat, "id")
        when = _ms(chat.get("created_at")) or _ms(inner.get("timestamp"))
        record = ChatRecord(
            new_key(),
            _text(chat, "title") or _text(inner, "title") or "imported chat",
            named=True,
            system=_text(_map(inner, "params"), "system") or _text(inner, "system"),
            made_ms=when,
            changed_ms=_ms(chat.get("updated_at")) or when,
            source=f"open-webui:{source}" if source else "",
        )
        read.chats.append(planted(record, nodes, current))
    return read


def _webui_map(chat: dict[str, Any]) -> dict[str, Any]:
    return _map(_map(_map(chat, "chat") or chat, "history"), "messages")


def _webui_list(chat: dict[str, Any]) -> list[Any]:
    messages = (_map(chat, "chat") or chat).get("messages")
    return messages if isinstance(messages, list) else []


def _in_a_row(messages: list[Any]) -> tuple[dict[str, Any], str]:
    """Older exports have a list only."""
    made: dict[str, Any] = {}
    before = ""
    for number, message in enumerate(messages):
        if isinstance(message, dict):
            made[str(number)] = {**message, "parentId": before, "childrenIds": []}
            before = str(number)
    return made, before


def _webui_message(message: dict[str, Any], read: Read) -> MessageRecord | None:
    role, text = _text(message, "role"), _text(message, "content")
    if role not in _ROLES:
        read.left_out += 1
        return None
    reply = role == "assistant"
    read.left_out += len(message["files"]) if isinstance(message.get("files"), list) else 0
    return MessageRecord(
        0,
        role,
        text,
        made_ms=_ms(message.get("timestamp")),
        status="end" if reply else "",
        model=(_text(message, "model") or _text(message, "modelName")) if reply else "",
    )


# ------------------------------------------------------------------------------------------------- trees


def planted(record: ChatRecord, nodes: dict[str, Foreign], current: str) -> Chat:
    """The tree of these nodes, numbered from 1, with the path to the node `current` chosen. Rings are cut."""
    below: dict[str, list[str]] = {}
    for name, node in nodes.items():
        below.setdefault(node.parent if node.parent in nodes else "", []).append(name)
    for name, names in below.items():
        order = {child: at for at, child in enumerate(nodes[name].children)} if name else {}
        names.sort(key=lambda child: order.get(child, len(order)))
    numbers: dict[str, int] = {"": 0}  # of each node: its message's, or that of the nearest one above
    made: list[MessageRecord] = []
    todo = list(reversed(below.get("", [])))
    while todo:
        name = todo.pop()
        above = numbers[nodes[name].parent if nodes[name].parent in nodes else ""]
        message = nodes[name].message
        if message is None:
            numbers[name] = above
        else:
            numbers[name] = len(made) + 1
            made.append(msgspec.structs.replace(message, number=numbers[name], parent=above))
        todo.extend(reversed(below.get(name, [])))
    chosen = {message.parent: message.number for message in made}  # the newest branch, where nothing tells
    number = numbers.get(current, 0)
    while number:
        parent = made[number - 1].parent
        chosen[parent] = number
        number = parent
    messages = tuple(msgspec.structs.replace(m, chosen=chosen.get(m.number, 0)) for m in made)
    return Chat(msgspec.structs.replace(record, chosen=chosen.get(0, 0)), messages)


def _map(owner: Any, name: str) -> dict[str, Any]:
    found = owner.get(name) if isinstance(owner, dict) else None
    return found if isinstance(found, dict) else {}


def _text(owner: Any, name: str) -> str:
    found = owner.get(name) if isinstance(owner, dict) else None
    return found if isinstance(found, str) else ""


def _names(found: Any) -> list[str]:
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _ms(seconds: Any) -> int:
    """Seconds since 1970 (Open WebUI has also had milliseconds) as milliseconds; 0 for what is no time."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < 1e14:
        return 0
    return int(seconds if seconds > 1e11 else seconds * 1000)
