"""A model's own tokenizer: text to ids with spans, ids to bytes and text, and which ids mean control."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import tokenizers

from .control import ControlTokens, Encoded, Encoder
from .errors import ModelError, PromptError
from .reasoning import Tags, tags_of
from .spelling import BYTE_ALPHABET, read_spelling
from .template import ChatTemplate, builtin, no_template
from .tokenizer_files import TokenizerFiles, read_tokenizer_files

if TYPE_CHECKING:
    from .turns import TurnFacts

_SURROGATE = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and every lone surrogate replaced by U+FFFD, so that it has a UTF-8 form."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Tokenizer:
    """One model's vocabulary with what its files say about it. Build it with `load_tokenizer`.

    `special_ids` are the tokens that never give text; `control` are those plus the ones that the chat template
    writes, whose text typed by a user stays text. `end_ids` end a reply.
    """

    def __init__(self, backend: tokenizers.Tokenizer, files: TokenizerFiles, name: str = "") -> None:
        self.backend = backend
        self.name = name
        self.vocabulary = backend.get_vocab_size()
        self.spelling = read_spelling(backend)
        self.named = files.named
        self._added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(number for number, token in self._added.items() if token.special)
        self.bos_id = self._id("bos_token")
        self.adds_bos = self.bos_id is not None and (
            files.adds_bos if files.adds_bos is not None else backend.encode("a").ids[:1] == [self.bos_id]
        )
        self.templates = {key: ChatTemplate(text, files.named, key) for key, text in files.templates.items()}
        self._configured_ends = (*files.end_ids, self._id("eos_token"))
        self._bytes: dict[int, bytes] = {}
        self._pieces: dict[int, str] = {}
        self._controls: dict[str, ControlTokens] = {}
        self._encoders: dict[str, Encoder] = {}
        self._facts: dict[str, TurnFacts] = {}

    def _id(self, name: str) -> int | None:
        return self.backend.token_to_id(self.named[name]) if name in self.named else None

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The template for chats, or None if the model has none."""
        return self.templates.get("default")

    @property
    def control(self) -> ControlTokens:
        """Control tokens under the model's own template."""
        return self.control_under(self.chat_template)

    @functools.cached_property
    def reasoning(self) -> Tags:
        """The think tags that the model's own template mentions."""
        return tags_of(self.chat_template.literals if self.chat_template else "")

    @functools.cached_property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a reply: of generation config, config and tokenizer, and what the template ends a reply with."""
        ends = [number for number in self._configured_ends if number is not None]
        if self.chat_template is not None:
            ends += self.facts(self.chat_template).end_ids
        return tuple(dict.fromkeys(ends))

    def control_under(self, template: ChatTemplate | None) -> ControlTokens:
        """Special tokens, and the added tokens that occur in the template's own text."""
        key = template.source if template else ""
        if key not in self._controls:
            written = template.literals if template else ""
            texts = {token.content: number for number, token in self._added.items() if token.content}
            special = {self._added[number].content for number in self.special_ids}
            meant = {text for text in texts if text in special or (text in written and not text.isspace())}
            self._controls[key] = ControlTokens({text: texts[text] for text in meant})
        return self._controls[key]

    def template(self, choice: str = "") -> ChatTemplate:
        """The template to use: the model's own, or `choice`, which names one of its others or a built-in one.

        Raises `PromptError` if the model has none and none is chosen, and for unknown names.
        """
        if not choice:
            if self.chat_template is None:
                raise no_template()
            return self.chat_template
        if choice in self.templates:
            return self.templates[choice]
        return builtin(choice, self.named if self.adds_bos else {**self.named, "bos_token": ""})

    def facts(self, template: ChatTemplate) -> TurnFacts:
        """What probe conversations tell about a template, found once."""
        from .turns import probe

        if template.source not in self._facts:
            self._facts[template.source] = probe(template, self.control_under(template))
        return self._facts[template.source]

    def encoder(self, template: ChatTemplate | None = None) -> Encoder:
        """Encodes text with control tokens, under `template`, only where the caller says."""
        key = template.source if template else ""
        if key not in self._encoders:
            self._encoders[key] = Encoder(self.backend, self.control_under(template or self.chat_template))
        return self._encoders[key]

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as plain text: no begin-of-text token, and no control token whatever the text holds."""
        return [token.id for token in self.encode_with_offsets(text)]

    def encode_with_offsets(self, text: str) -> list[Encoded]:
        """As `encode`, with the characters of `text` that each token came from. Lone surrogates become U+FFFD."""
        return self.encoder().encode(well_formed(text))

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for in the middle of a text; empty for ids outside the vocabulary."""
        data = self._bytes.get(token)
        if data is None:
            data = self._bytes[token] = self._bytes_of(token)
        return data

    def _bytes_of(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].content.encode()
        piece = self.backend.id_to_token(token) if token >= 0 else None
        if piece is None:
            return b""
        return self.spelling.bytes_of(piece) if self.spelling else piece.encode()

    def piece(self, token: int) -> str:
        """A token for display: its text, with U+FFFD for bytes that are no whole character."""
        text = self._pieces.get(token)
        if text is None:
            text = self._pieces[token] = self.token_bytes(token).decode("utf-8", "replace")
        return text

    def unseen(self, text: str) -> str:
        """The characters of `text` that a byte-level vocabulary has not all bytes for, so that encoding drops some."""
        lacking = self._lacking
        return "".join(c for c in dict.fromkeys(text) if any(byte in lacking for byte in c.encode())) if lacking else ""

    @functools.cached_property
    def _lacking(self) -> frozenset[int]:
        if self.spelling is None or not self.spelling.byte_level:
            return frozenset()
        return frozenset(byte for char, byte in BYTE_ALPHABET.items() if self.backend.token_to_id(char) is None)

    def decode(self, ids: list[int] | tuple[int, ...], *, control: bool = False, midway: bool = False) -> str:
        """The text of `ids`, with nothing tidied: `encode` and back gives the same text.

        Control tokens give text only with `control`. With `midway` the text goes on another, so a space that the
        tokenizer would put at the start of a text stays. Bytes that are no UTF-8 become U+FFFD.
        """
        kept = [number for number in ids if control or number not in self.special_ids]
        if self.spelling is None:
            return self.backend.decode(kept, skip_special_tokens=False)
        data = b"".join(map(self.token_bytes, kept))
        return (data if midway else data.removeprefix(self.spelling.strip_start)).decode("utf-8", "replace")


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder. Raises `ModelError` if it has none that can be read."""
    folder = Path(folder)
    files = read_tokenizer_files(folder)
    path = folder / "tokenizer.json"
    backend = _read_backend(path) if path.is_file() else _convert_backend(folder)
    backend.no_truncation()
    backend.no_padding()
    _add_missing(backend, files)
    try:
        return Tokenizer(backend, files, folder.name)
    except PromptError as error:
        raise ModelError(f"{folder}: {error.message}", error.action) from error


def _read_backend(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exceptions
        raise ModelError(f"{path} is no tokenizer that can be read: {error}.", "Fetch the model again.") from error


def _convert_backend(folder: Path) -> tokenizers.Tokenizer:
    """Older folders have only vocabulary files; transformers knows how to convert many of them."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # whatever a converter raises, the user's problem is the same
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{folder} has no tokenizer.json, and its vocabulary files can't be converted: {reason}",
            "Put the model's tokenizer.json there.",
        ) from error


def _add_missing(backend: tokenizers.Tokenizer, files: TokenizerFiles) -> None:
    """Tokens that only tokenizer_config.json mentions, where they keep their ids."""
    for number, entry in sorted(files.added.items()):
        text = entry.get("content", "")
        if text and backend.token_to_id(text) is None and number == backend.get_vocab_size():
            flags = {key: bool(entry.get(key, False)) for key in ("lstrip", "rstrip", "single_word", "normalized")}
            backend.add_tokens([tokenizers.AddedToken(text, special=bool(entry.get("special")), **flags)])
    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    for text in dict.fromkeys((*files.named.values(), *files.extra)):
        token = known.get(text, tokenizers.AddedToken(text, normalized=False))
        if backend.token_to_id(text) is not None and not (text in known and token.special):
            flags = {key: getattr(token, key) for key in ("lstrip", "rstrip", "single_word", "normalized")}
            backend.add_special_tokens([tokenizers.AddedToken(text, special=True, **flags)])
