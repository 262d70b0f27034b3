"""Prompts against the pinned transformers: same text, same ids, for published templates and the built-in ones."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from cutaway.engine.errors import PromptError
from cutaway.engine.prompt import render
from cutaway.engine.protocol import Message
from cutaway.engine.template import BUILTIN, ChatTemplate, TemplateRefusal
from cutaway.engine.tokenizer import Tokenizer, load_tokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import tiny_tokenizers as tiny
from .template_families import FAMILIES, Family

CONVERSATIONS = [
    [("user", "Why is the sky blue?")],
    [("system", "Be brief."), ("user", "Why is\n\nthe sky blue?")],
    [("user", "hi"), ("assistant", "Hello!"), ("user", "  2 < 3, x|y  \n")],
    [("system", "S"), ("user", "user"), ("assistant", "assistant\nuser"), ("user", "你好 😀")],
    [("user", "a"), ("assistant", "The answer is 42."), ("user", "b"), ("assistant", "c"), ("user", "d\n\n\ne")],
]
# No character of these begins a control token of any family, so the content is never anything but text.
HARMLESS = st.text(st.characters(exclude_characters="<[|{", exclude_categories=["Cs"]), max_size=30)


@functools.cache
def _reference(folder: Path):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(str(folder))


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def family(request, tmp_path_factory) -> tuple[Family, Tokenizer, Path]:
    folder = request.param.save(tmp_path_factory.mktemp(request.param.name))
    return request.param, load_tokenizer(folder), folder


def _expected(folder: Path, conversation: list[tuple[str, str]], **options) -> tuple[str, list[int]]:
    messages = [{"role": role, "content": content} for role, content in conversation]
    reference = _reference(folder)
    options = {"add_generation_prompt": True, **options}
    text = reference.apply_chat_template(messages, tokenize=False, **options)
    return text, reference.apply_chat_template(messages, tokenize=True, return_dict=False, **options)


def _messages(conversation: list[tuple[str, str]]) -> list[Message]:
    return [Message(role, content) for role, content in conversation]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_ct_06_published_templates_give_the_text_and_ids_of_the_reference(family, conversation):
    known, tokenizer, folder = family
    if conversation[0][0] == "system" and not known.system:
        conversation = conversation[1:]
    prompt = render(tokenizer, _messages(conversation))
    assert (prompt.text, list(prompt.ids)) == _expected(folder, conversation)
    assert prompt.repairs == ()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(HARMLESS, min_size=1, max_size=5))
def test_any_harmless_content_gives_the_ids_of_the_reference(family, contents):
    _, tokenizer, folder = family
    roles = ["user", "assistant"] * len(contents)
    conversation = list(zip(roles, contents, strict=False))
    prompt = render(tokenizer, _messages(conversation))
    assert (prompt.text, list(prompt.ids)) == _expected(folder, conversation)


@pytest.mark.parametrize(
    "ending", ["<|im_start|>assistant\n", "{{ '<|im_start|>assistant\\n' }}", "{{ '<|im_start|>assistant\n' }}\n"]
)
def test_ct_06_the_newline_at_a_templates_end_is_kept_or_dropped_as_the_reference_does(tmp_path, ending):
    template = "{% for m in messages %}{{ m['content'] }}<|im_end|>\n{% endfor %}" + ending
    folder = tiny.save(tmp_path, tiny.byte_level(), template=template, eos_token="<|im_end|>")
    prompt = render(load_tokenizer(folder), [Message("user", "hi")])
    assert (prompt.text, list(prompt.ids)) == _expected(folder, [("user", "hi")])


def test_templates_render_with_the_references_filters_globals_and_tags(tmp_path):
    template = (
        "{%- set ns = namespace(n=0) %}{% set box = dict(a=1) %}\n"
        "{% for m in messages %}\n"
        "    {% if m.content == 'skip' %}{% continue %}{% endif %}\n"
        "    {% set ns.n = ns.n + 1 %}\n"
        "{% generation %}{{ m | tojson }}{% endgeneration %}\n"
        "  {{ box }} {{ ns.n }} {{ strftime_now('%Y') }}\n"
        "{% endfor %}{{ tools is none }}{{ documents is none }}{{ eos_token }}"
    )
    folder = tiny.save(tmp_path, tiny.byte_level(), template=template, eos_token="<|im_end|>")
    conversation = [("user", "a <b> & 'é'"), ("assistant", "skip"), ("user", "c")]
    rendered = ChatTemplate(template, {"eos_token": "<|im_end|>"}).render(
        [{"role": role, "content": content} for role, content in conversation], generation=True
    )
    assert rendered == _expected(folder, conversation)[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ raise_exception('no') }}",
        "{{ messages[7].content.x }}",
    ],
)
def test_a_template_that_fails_or_leaves_the_sandbox_is_refused(source):
    with pytest.raises(TemplateRefusal):
        ChatTemplate(source).render([{"role": "user", "content": "x"}], generation=True)


def test_a_broken_template_is_named_with_its_line():
    with pytest.raises(PromptError, match=r"broken at line 2"):
        ChatTemplate("{% for m in messages %}\n{% endif %}", name="chatml")


def test_named_templates_are_kept_and_a_jinja_file_wins(tmp_path):
    named = [{"name": "default", "template": tiny.CHATML}, {"name": "tool_use", "template": "tools {{ messages }}"}]
    folder = tiny.save(tmp_path, tiny.byte_level(), template=named, eos_token="<|im_end|>")
    tokenizer = load_tokenizer(folder)
    assert set(tokenizer.templates) == {"default", "tool_use"}
    assert tokenizer.chat_template is not None
    assert tokenizer.chat_template.source == tiny.CHATML
    assert render(tokenizer, [Message("user", "x")], template="tool_use").text.startswith("tools ")
    (tmp_path / "chat_template.jinja").write_text("from a file: {{ messages[0].content }}")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("rag")
    reread = load_tokenizer(folder)
    assert render(reread, [Message("user", "x")]).text == "from a file: x"
    assert set(reread.templates) == {"default", "rag"}


def test_ct_07_a_model_without_template_says_so_and_offers_the_choices(tmp_path):
    tokenizer = load_tokenizer(tiny.save(tmp_path, tiny.byte_level(), eos_token="<|im_end|>"))
    with pytest.raises(PromptError, match="no chat template") as caught:
        render(tokenizer, [Message("user", "hi")])
    assert "plain completion" in caught.value.action
    assert all(name in caught.value.action for name in BUILTIN)
    assert render(tokenizer, text="hi").ids == tuple(tokenizer.encode("hi"))
    with pytest.raises(PromptError, match="no built-in chat template 'chatlm'"):
        render(tokenizer, [Message("user", "hi")], template="chatlm")


@pytest.mark.parametrize("name", BUILTIN)
def test_ct_07_every_builtin_template_takes_a_conversation(tmp_path, name):
    folder = tiny.save(tmp_path, tiny.byte_fallback(), bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer = load_tokenizer(folder)
    conversation = [("system", "Be brief."), ("user", "hi"), ("assistant", "Hello!"), ("user", "bye")]
    prompt = render(tokenizer, _messages(conversation), template=name)
    assert all(content in prompt.text for _, content in conversation)
    assert prompt.ids[0] == 1
    assert prompt.ids.count(1) == 1
    assert prompt.end_ids or prompt.stop
    assert bool(prompt.repairs) == (name in ("gemma", "mistral"))


def test_a_builtin_template_writes_no_begin_of_text_where_the_tokenizer_adds_none(tmp_path):
    tokenizer = tiny.byte_level()
    folder = tiny.save(tmp_path, tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>")
    assert render(load_tokenizer(folder), [Message("user", "hi")], template="plain").text == "User: hi\nAssistant:"
