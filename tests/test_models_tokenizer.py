"""Token ids from a GGUF vocabulary: the split of each known pre-tokenizer, SentencePiece by scores, control tokens."""

from __future__ import annotations

import json
import unicodedata
from functools import cache as once
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from cutaway.engine.errors import ModelError
from cutaway.engine.models import resolve
from cutaway.engine.models.gguf_header import Header
from cutaway.engine.models.gguf_tokenizer import build_tokenizer
from cutaway.engine.models.pretokenizers import SPLITS
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import AutoTokenizer
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from . import tiny_gguf


def header(**metadata: Any) -> Header:
    keys = {name.replace("_DOT_", "."): value for name, value in metadata.items()}
    return Header(Path("m.gguf"), 3, {"general.architecture": "llama", "llama.context_length": 64, **keys}, {}, 0)


def byte_level(pre: str | None, **more: Any) -> Header:
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tiny_gguf.tokens(),
        "tokenizer.ggml.merges": tiny_gguf.MERGES,
        "tokenizer.ggml.token_type": (3,) * len(tiny_gguf.CONTROLS) + (1,) * (len(tiny_gguf.tokens()) - 3),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        **more,
    }
    return header(**{key: value for key, value in metadata.items() if value is not None})


def pieces(pre: str, text: str) -> list[str]:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[pre].patterns]
    return [piece for piece, _ in pre_tokenizers.Sequence(splits).pre_tokenize_str(text)]


# Pieces that llama.cpp makes of the same texts, seen in its ids.
SPLIT_CASES = [
    ("gpt-2", "I'm at 1234 (x+y)\n\n  ok", ["I", "'m", " at", " 1234", " (", "x", "+", "y", ")", "\n\n ", " ok"]),
    ("smollm", "½ ²34 Ⅷ", ["½", " ", "²", "3", "4", " ", "Ⅷ"]),
    ("smollm", "a1b 22", ["a", "1", "b", " ", "2", "2"]),
    ("starcoder", "x=12", ["x", "=", "1", "2"]),
    ("llama-bpe", "WE'LL pay 12345€\r\n ok", ["WE", "'LL", " pay", " ", "123", "45", "€\r\n", " ok"]),
    ("qwen2", "(foo) 123\n\nbar", ["(foo", ")", " ", "1", "2", "3", "\n\n", "bar"]),
    ("gpt-4o", "CamelCase isn't 1234/x", ["Camel", "Case", " isn't", " ", "123", "4", "/x"]),
    ("tekken", "HTTPServer's 123", ["HTTPServer", "'s", " ", "1", "2", "3"]),
    ("seed-coder", "a;\n1", ["a", ";", "\n", "1"]),
    ("deepseek-coder", "ab 12,一二\n", ["ab", " ", "1", "2", ",", "一二", "\n"]),
]


@pytest.mark.parametrize(("pre", "text", "expected"), SPLIT_CASES)
def test_text_is_split_as_the_pre_tokenizer_of_that_name_splits_it(pre: str, text: str, expected: list[str]) -> None:
    assert pieces(pre, text) == expected


@pytest.mark.parametrize("pre", sorted(set(SPLITS) & set(GGUF_PRE_TOKENIZER_SPLITS)))
def test_patterns_agree_with_transformers_where_it_knows_the_name(pre: str) -> None:
    theirs = pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[pre]), "isolated")
    text = "".join(chr(code) + "x1 'S" for code in range(1, 0x3000) if unicodedata.category(chr(code)) != "Cs")
    assert pieces(pre, text) == [piece for piece, _ in theirs.pre_tokenize_str(text)]


def test_smollm_splits_every_character_as_its_own_tokenizer_json_does() -> None:
    """SmolLM's tokenizer.json says Digits(individual) and then ByteLevel with its own pattern."""
    own = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for start in range(1, 0x20000, 0x400):
        codes = [code for code in range(start, start + 0x400) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
        text = "".join(f"{chr(code)} {chr(code)}7a" for code in codes)
        if text:
            ours = [spelled.pre_tokenize_str(piece)[0][0] for piece in pieces("smollm", text)]
            assert ours == [piece for piece, _ in own.pre_tokenize_str(text)], hex(start)


@pytest.mark.parametrize("pre", ["zzz", "default", None])
def test_an_unknown_pre_tokenizer_is_refused_by_name_and_never_guessed(pre: str | None) -> None:
    with pytest.raises(ModelError) as caught:
        build_tokenizer(byte_level(pre))
    named = f"the pre-tokenizer '{pre}' is not known here" if pre else "the file does not name its pre-tokenizer"
    assert named in caught.value.message
    assert "known: gpt-2" in caught.value.message


def test_an_unknown_tokenizer_kind_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"the tokenizer kind bert is not supported \(supported: gpt2, llama\)"):
        build_tokenizer(byte_level("smollm", **{"tokenizer.ggml.model": "bert"}))


def test_a_token_that_appears_twice_is_named() -> None:
    tokens = [*tiny_gguf.tokens()[:-1], "hello"]
    with pytest.raises(ModelError, match="'hello' appears twice"):
        build_tokenizer(byte_level("smollm", **{"tokenizer.ggml.tokens": tokens}))


def test_a_merge_without_its_token_is_named() -> None:
    with pytest.raises(ModelError, match="the merge 'q x' needs the token 'qx'"):
        build_tokenizer(byte_level("smollm", **{"tokenizer.ggml.merges": ["q x"]}))


def test_byte_level_ids_merge_and_decode() -> None:
    tokenizer, _ = build_tokenizer(byte_level("smollm"))
    vocabulary = tokenizer.get_vocab()
    encoded = tokenizer.encode("hello world 123é", add_special_tokens=False)
    assert encoded.tokens == ["hello", "Ġworld", "Ġ", "1", "2", "3", "Ã", "©"]
    assert encoded.ids == [vocabulary[token] for token in encoded.tokens]
    assert tokenizer.decode(encoded.ids) == "hello world 123é"


def test_control_tokens_are_special_and_user_defined_ones_are_not() -> None:
    kinds = [3] * 3 + [1] * (len(tiny_gguf.tokens()) - 3)
    kinds[-1] = 4
    tokens = [*tiny_gguf.tokens()[:-1], "<think>"]
    merges = tiny_gguf.MERGES[:-1]
    more = {"tokenizer.ggml.token_type": tuple(kinds), "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges}
    tokenizer, _ = build_tokenizer(byte_level("smollm", **more))
    assert tokenizer.encode("<|im_start|><think>").ids == [1, len(tokens) - 1]
    added = {token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()}
    assert added == {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True, "<think>": False}
    tokenizer.encode_special_tokens = True
    assert 1 not in tokenizer.encode("<|im_start|>").ids


@pytest.mark.parametrize(("pre", "said", "expected"), [("smollm", None, False), ("llama-bpe", None, True)])
def test_bos_comes_first_where_the_file_or_else_its_kind_says_so(pre: str, said: bool | None, expected: bool) -> None:
    tokenizer, config = build_tokenizer(byte_level(pre, **{"tokenizer.ggml.add_bos_token": said}))
    assert config["add_bos_token"] is expected
    assert (tokenizer.encode("h").ids[0] == 1) is expected
    tokenizer, config = build_tokenizer(byte_level(pre, **{"tokenizer.ggml.add_bos_token": not expected}))
    assert config["add_bos_token"] is not expected
    assert (tokenizer.encode("h").ids[0] == 1) is not expected


def test_tokenizer_config_names_the_special_tokens_and_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    tiny_gguf.llama(tmp_path / "m.gguf")
    folder = resolve(str(tmp_path / "m.gguf")).folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
    )
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "12"}], tokenize=True)["input_ids"]
    assert tokenizer.decode(ids) == "<|im_start|>user\n12<|im_end|>\n"
    text = "hello world ½ 123 <|im_end|>"
    assert tokenizer(text)["input_ids"] == Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation == {"bos_token_id": 1, "eos_token_id": [2, 0], "pad_token_id": 0}


# ------------------------------------------------------------------------------------------- SentencePiece

WORDS = [
    "▁a",
    "▁t",
    "he",
    "▁the",
    "in",
    "an",
    "▁an",
    "er",
    "re",
    "aa",
    "aaa",
    "▁▁",
    "lo",
    "hel",
    "hello",
    "▁hello",
    "s>",
]
CHARS = list("▁abcdefghijklmnopqrstuvwxyz<>/|_.!é日")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, "<|go|>", "<mark>", *WORDS, *CHARS, "</"]


def sentencepiece(**more: Any) -> Header:
    kinds = [2, 3, 3] + [6] * 256 + [3, 4] + [1] * (len(WORDS) + len(CHARS) + 1)
    scores = [0.0] * 261 + [-float(rank) for rank in range(len(WORDS) + len(CHARS) + 1)]
    return header(
        **{
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": PIECES,
            "tokenizer.ggml.scores": tuple(scores),
            "tokenizer.ggml.token_type": tuple(kinds),
            "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            **more,
        }
    )


def by_scores(text: str) -> list[int]:
    """SentencePiece's rule, done slowly: join the neighbours whose union scores best, leftmost first."""
    score = {piece: -rank for rank, piece in enumerate([*WORDS, *CHARS, "</"])}
    parts = list("▁" + text.replace(" ", "▁"))
    while True:
        unions = [(score[a + b], -i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in score]
        if not unions:
            break
        at = -max(unions)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    ids: list[int] = []
    for part in parts:
        ids += [PIECES.index(part)] if part in score else [3 + byte for byte in part.encode()]
    return ids


@once
def built() -> Tokenizer:
    tokenizer, _ = build_tokenizer(sentencepiece())
    tokenizer.encode_special_tokens = True
    return tokenizer


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="aehlotnirs </>|_é日𝒜\n", min_size=1, max_size=24))
def test_sentencepiece_ids_follow_the_scores(text: str) -> None:
    if "<mark>" not in text:
        assert built().encode(text, add_special_tokens=False).ids == by_scores(text)


def test_typed_control_tokens_stay_text_though_their_pieces_would_join() -> None:
    ids = built().encode("</s><s><|go|>", add_special_tokens=False).ids
    assert not {1, 2, PIECES.index("<|go|>")} & set(ids)
    assert PIECES.index("</") in ids


def test_sentencepiece_puts_a_space_before_every_stretch_unless_told_not_to() -> None:
    tokenizer, config = build_tokenizer(sentencepiece())
    assert tokenizer.encode(" a").tokens == ["<s>", "▁", "▁a"]
    assert tokenizer.encode("<|go|>a<mark>a").tokens == ["<s>", "<|go|>", "▁a", "<mark>", "▁a"]
    assert tokenizer.decode(tokenizer.encode("hello 日").ids) == "hello 日"
    assert config["add_bos_token"] is True
    tokenizer, _ = build_tokenizer(sentencepiece(**{"tokenizer.ggml.add_space_prefix": False}))
    assert tokenizer.encode("a a").tokens == ["<s>", "a", "▁a"]


def test_sentencepiece_spells_unknown_characters_in_bytes() -> None:
    ids = built().encode("𝒜", add_special_tokens=False).ids
    assert ids == [PIECES.index("▁"), *(3 + byte for byte in "𝒜".encode())]
    assert built().decode(ids) == "𝒜"


def test_sentencepiece_equals_transformers_conversion_of_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "spm.gguf"
    source = sentencepiece()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores(list(source.metadata["tokenizer.ggml.scores"]))
    writer.add_token_types(list(source.metadata["tokenizer.ggml.token_type"]))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_tensor("token_embd.weight", np.zeros((len(PIECES), 32), np.float32))
    tiny_gguf.finish(writer)
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="spm.gguf")
    ours, _ = build_tokenizer(source)
    for text in ["hello the a", "an aaa aaaa", "there in hello", "é 日 x9", "the\nend"]:
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


# -------------------------------------------------------------------------------------- the default model


@pytest.mark.model
def test_default_model_gives_the_ids_that_llama_cpp_gives() -> None:
    tokenizer = Tokenizer.from_file(str(resolve("").folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    golden = json.loads((Path(__file__).parent / "models_golden_ids.json").read_text("utf-8"))
    assert golden[0][1][:13] == [16738, 216, 19133, 216, 39050, 216, 173, 223, 117, 216, 164, 111, 164]
    for text, ids in golden:
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids, text
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.model
def test_default_model_has_no_bos_and_its_control_tokens_are_special() -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve("").folder)
    assert tokenizer("hi")["input_ids"] == [6004]
    assert tokenizer("<|im_start|>user\n")["input_ids"][0] == 1
    assert len(tokenizer) == 49152
