"""Chat templates: the Jinja text a model brings, rendered with the settings of transformers' `apply_chat_template`."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

from .errors import PromptError

BUILTIN = ("chatml", "gemma", "llama3", "mistral", "plain")


class TemplateRefusal(Exception):
    """The template would not render these messages; `str()` is its own message."""


class ChatTemplate:
    """One chat template with the special tokens' texts that it may write (`bos_token`, `eos_token` …).

    Raises `PromptError` if `source` is not a valid template.
    """

    def __init__(self, source: str, variables: Mapping[str, str] | None = None, name: str = "") -> None:
        self.source = source
        self.variables = dict(variables or {})
        self.name = name
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise PromptError(
                f"The chat template {name or 'of this model'} is broken at line {error.lineno}: {error.message}.",
                _choices(),
            ) from error

    def render(self, messages: Sequence[Mapping[str, str]], *, generation: bool, parts: bool = False) -> str:
        """The text for `messages`; with `generation` it ends where the assistant's reply begins.

        With `parts` the contents are given as lists of one text part, which templates of models that also see or
        hear may want. Raises `TemplateRefusal` whatever goes wrong inside the template.
        """
        given: list[dict[str, Any]] = [dict(message) for message in messages]
        if parts:
            given = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in given]
        try:
            return self._template.render(
                messages=given,
                tools=None,
                documents=None,
                add_generation_prompt=generation,
                **self.variables,
            )
        except Exception as error:  # the template is foreign code: it may fail in any way
            raise TemplateRefusal(str(error) or type(error).__name__) from error

    @functools.cached_property
    def literals(self) -> str:
        """The template's own text: what stands outside tags and every string constant, separated by NUL."""
        tree = _environment().parse(self.source)
        texts = [node.data for node in tree.find_all(jinja2.nodes.TemplateData)]
        texts += [node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)]
        return "\0".join(texts)


def builtin(name: str, variables: Mapping[str, str] | None = None) -> ChatTemplate:
    """A template that comes with cutaway, by its name in `BUILTIN`. Raises `PromptError` for other names."""
    if name not in BUILTIN:
        raise PromptError(f"There is no built-in chat template {name!r}.", _choices())
    source = (Path(__file__).parent / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    return ChatTemplate(source, {"bos_token": "", "eos_token": "", **(variables or {})}, name)


def no_template() -> PromptError:
    """What to say when a model without a chat template is given messages."""
    return PromptError("This model has no chat template, so it does not know about messages.", _choices())


def _choices() -> str:
    return f"Choose a built-in template ({', '.join(BUILTIN)}), or use plain completion, which needs none."


@functools.cache
def _environment() -> jinja2.Environment:
    # Settings, filter and globals are those of transformers 5.24 (utils/chat_template_utils.py), so that the text
    # is the one the model was trained on. Jinja drops one newline at the template's end by default; so does this.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    environment.globals["dict"] = lambda *args, **values: dict(*args, **values)
    environment.globals["namespace"] = _Namespace
    return environment


class _Generation(jinja2.ext.Extension):
    """`{% generation %} … {% endgeneration %}`, which marks assistant text for training, and renders as its body."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


class _Namespace(jinja2.utils.Namespace):
    """Jinja's namespace without the names that lead out of the sandbox."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a template may not set {name!r}")
        super().__setitem__(name, value)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML, which is wrong here.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
