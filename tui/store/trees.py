"""Between trees that change on the screen and records that are kept."""

from __future__ import annotations

from typing import cast, get_args

from ..state.choice import Choice
from ..state.conversation import Conversation, Node, Reply, Status
from .records import Chat, ChatRecord, MessageRecord, made_ms, new_number

CUT_OFF = "the program ended while this was written"
_STATUSES = frozenset(get_args(Status))


def number_all(conversation: Conversation) -> None:
    """Give every message that has none a number: parents before children, older branches before newer."""
    todo = [conversation.root]
    while todo:
        node = todo.pop()
        for child in node.children:
            child.number = child.number or new_number()
        todo.extend(reversed(node.children))


def chat_record(conversation: Conversation, made: int, changed: int) -> ChatRecord:
    """The chat itself; `made` and `changed` in milliseconds since 1970."""
    return ChatRecord(
        conversation.key,
        conversation.title,
        named=bool(conversation.named),
        system=conversation.system,
        made_ms=made,
        changed_ms=changed,
        chosen=_chosen(conversation.root),
        server=conversation.choice.server if conversation.choice is not None else "",
        model=conversation.choice.model if conversation.choice is not None else "",
    )


def message_record(node: Node) -> MessageRecord:
    """One message as it is now. The node may grow meanwhile: what is torn is written again soon."""
    reply = node.reply
    parent = node.parent.number if node.parent is not None else 0
    made = made_ms(node.number)
    if reply is None:
        return MessageRecord(node.number, node.role, node.text, parent, _chosen(node), made)
    return MessageRecord(
        node.number,
        node.role,
        node.text,
        parent,
        _chosen(node),
        made,
        status=reply.status,
        detail=reply.detail,
        action=reply.action,
        note=reply.note,
        reasoning=reply.reasoning,
        prefix=len(reply.prefix),
        model=reply.model,
        identity=reply.identity,
        settings=reply.settings,
        tokens=reply.tokens,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        ttft_ns=reply.ttft_ns,
        speed=reply.speed,
        token_ids=reply.token_ids,
    )


def _chosen(node: Node) -> int:
    return node.children[node.chosen].number if node.children else 0


def grow(chat: Chat) -> Conversation:
    """The tree of a stored chat. A reply that was cut off by the program's end says so."""
    record = chat.record
    conversation = Conversation(record.key, record.title if record.named else "", record.system)
    conversation.changed_ms = record.changed_ms
    conversation.choice = Choice(record.server, record.model) if record.server or record.model else None
    nodes: dict[int, Node] = {0: conversation.root}
    wanted = {0: record.chosen}
    for message in sorted(chat.messages, key=lambda message: message.number):
        parent = nodes.get(message.parent, conversation.root)
        node = Node(message.role, message.text, parent, reply=_reply(message), number=message.number)
        parent.children.append(node)
        nodes[message.number] = node
        wanted[message.number] = message.chosen
    for number, node in nodes.items():
        chosen = nodes.get(wanted[number])
        at = next((i for i, child in enumerate(node.children) if child is chosen), len(node.children) - 1)
        node.chosen = max(0, at)
    return conversation


def _reply(message: MessageRecord) -> Reply | None:
    if not message.status:
        return None
    status, detail = message.status, message.detail
    if status in ("waiting", "writing"):
        status, detail = "stopped", CUT_OFF
    elif status not in _STATUSES:
        status = "end"
    return Reply(
        "",
        status=cast(Status, status),
        detail=detail,
        action=message.action,
        tokens=message.tokens,
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
        prefix=message.text[: message.prefix],
        reasoning=message.reasoning,
        note=message.note,
        settings=message.settings,
        model=message.model,
        identity=message.identity,
        ttft_ns=message.ttft_ns,
        speed=message.speed,
        token_ids=message.token_ids,
    )
