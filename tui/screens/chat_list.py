"""The main screen's actions on whole chats: new, another, searched for, renamed, taken away, brought back."""

from __future__ import annotations

from collections.abc import Callable

from textual.timer import Timer

from ...engine.errors import CutawayError
from ..printable import printable
from ..state.conversation import Conversation
from .chat_actions import ChatActions

FOLLOW_AFTER = 0.4  # seconds in a chat until the model that it was written with is asked for


class ChatList(ChatActions):
    """Go from chat to chat, and say how keeping them goes."""

    _saving_trouble = ""
    _following: Timer | None = None

    def open_store(self) -> None:
        """Open the store where chats are kept, once the screen has been painted: it takes its time."""
        if self.session.open_store():
            self.follow_store()
            self.changed([])

    def follow_store(self) -> None:
        """Listen to the store, and tell what it has to say."""
        store = self.session.store
        store.on_change = lambda: self.call_later(self.tell_saving)
        if store.notice:
            self.notify(printable(store.notice), severity="warning", markup=False, timeout=30)

    def action_new_chat(self) -> None:
        self._leave()
        self.session.new_chat()
        self._chat_changed()

    def action_turn_chat(self, by: int) -> None:
        chats = self.session.store.all()
        index = chats.index(self.session.conversation) + by
        if 0 <= index < len(chats):
            self._leave()
            self._show(chats[index])

    def action_chats(self) -> None:
        from .chats import ChatsDialog

        self._leave()
        self.session.store.save(self.session.conversation)
        dialog = ChatsDialog(self.session.store, self.session.conversation.key, self._delete)
        self.app.push_screen(dialog, self._chosen)

    def _delete(self, key: str) -> None:
        """Take away a chat of the list, whether it is open or not."""
        store = self.session.store
        opened = next((chat for chat in store.all() if chat.key == key), None)
        if opened is None:
            store.delete_key(key)
        elif opened is self.session.conversation:
            self._take_away(store.delete)
        else:
            self.session.send(*self.session.exchange.stop(opened.running()))
            store.delete(opened)

    def _chosen(self, key: str | None) -> None:
        if not key:
            return
        try:
            conversation = self.session.store.open(key)
        except CutawayError as error:
            self.say(str(error), "error")
            return
        if conversation is None:
            self.say("This chat is gone: another program removed it.", "warning")
        else:
            self._show(conversation)
            self.tell_model()

    def action_close_chat(self) -> None:
        self._take_away(self.session.store.close)

    def action_delete_chat(self) -> None:
        title = self.session.conversation.title
        self._take_away(self.session.store.delete)
        palette = self.keymap.shown("palette")
        self.say(f"Deleted: {title}. The palette{f' ({palette})' if palette else ''} can bring it back.")

    def action_undelete_chat(self) -> None:
        try:
            back = self.session.store.undelete()
        except CutawayError as error:
            self.say(str(error), "error")
            return
        if back is None:
            self.say("There is no deleted chat.")
        else:
            self._leave()
            self._show(back)

    def action_rename_chat(self) -> None:
        conversation = self.session.conversation

        def named(title: str | None) -> None:
            if title is not None:
                self.session.store.rename(conversation, title)
                self.path_changed()

        hint = "Empty: the beginning of the first question."
        self.ask_value("name of this chat", conversation.named, hint, lambda text: " ".join(text.split()), named)

    def tell_model(self) -> None:
        """Say when another model than the loaded one has written the chat shown."""
        card = self.session.state.card
        path = self.session.conversation.path()
        before = next((n.reply.model for n in reversed(path) if n.reply is not None and n.reply.model), "")
        if card is not None and before and before != card.name:
            self.say(f"This chat was written with {before}; {card.name} goes on with it.")

    def tell_saving(self) -> None:
        """Say that chats are not being saved, and when they are again. The top bar shows it as long as it lasts."""
        trouble = self.session.store.trouble
        if trouble and trouble != self._saving_trouble:
            self.say(f"Not being saved: {trouble}. What is said stays in memory and is saved when it can be.", "error")
        elif self._saving_trouble and not trouble:
            self.say("Everything is saved again.")
        self._saving_trouble = trouble
        self.changed([])

    def _leave(self) -> None:
        self.session.conversation.draft = self.composer.message

    def _show(self, conversation: Conversation) -> None:
        self.session.show(conversation)
        self._chat_changed()

    def _take_away(self, how: Callable[[Conversation], None]) -> None:
        closed = self.session.conversation
        self.session.send(*self.session.exchange.stop(closed.running()))
        how(closed)
        left = self.session.store.all()
        if left:
            self.session.show(left[-1])
        else:
            self.session.new_chat()
        self._chat_changed()

    def _chat_changed(self) -> None:
        replies = [node for node in self.session.conversation.path() if node.reply is not None]
        self.follow_reply(replies[-1] if replies else None)
        self.view.show(self.session.conversation)
        self.composer.put(self.session.conversation.draft)
        self.path_changed()
        self.composer.focus()
        if self._following is not None:
            self._following.stop()
        self._following = self.set_timer(FOLLOW_AFTER, self._follow) if self.session.strays else None

    def _follow(self) -> None:
        """The reader stays in this chat: let its own engine answer, unless another chat's reply still comes."""
        self._following = None
        if not self.session.exchange.running:
            self.follow_choice()
