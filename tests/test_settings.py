"""Settings without a screen: the schema, values, the file read and written, layers, templates."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from cutaway.engine.commands import Load, SamplingSettings
from cutaway.engine.errors import SettingError
from cutaway.engine.settings import check as border
from cutaway.tui.keymap import made
from cutaway.tui.settings import documented, layers, live, templates
from cutaway.tui.settings.document import SettingsFile, load, read
from cutaway.tui.settings.lines import line_numbers
from cutaway.tui.settings.schema import BY_NAME, SECTIONS, SETTINGS, Setting, find
from cutaway.tui.settings.values import check, told, typed, written
from cutaway.tui.settings.writing import ABSENT, changed, put
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)


def good(setting: Setting) -> st.SearchStrategy[Any]:
    """Values in the range of a setting."""
    if setting.optional:
        return st.none() | st.integers(1, 2**31 - 1)
    match setting.kind:
        case "number":
            low, high = {"temperature": (0, 1e9), "top_p": (0.001, 1), "min_p": (0, 1)}.get(setting.name, (0.01, 2))
            return st.floats(low, high)
        case "whole" if setting.low is not None:
            return st.integers(int(setting.low), int(setting.high or 0))
        case "whole":
            return st.integers(0, 2**31 - 1)
        case "flag":
            return st.booleans()
        case "choice":
            return st.sampled_from(setting.choices)
        case "text" if setting.name in ("preset", "server"):
            return st.just("")  # others must be named in the same file
        case "text":
            return TEXT
        case "texts":
            return st.lists(TEXT.filter(bool), max_size=4).map(tuple)
        case "ids":
            return st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
        case "bias":
            return st.dictionaries(st.integers(0, 9999), st.floats(-100, 100), max_size=4)


def bad(setting: Setting) -> st.SearchStrategy[Any]:
    """Values, as a file may have them, that are out of the range of a setting."""
    wrong: st.SearchStrategy[Any] = st.sampled_from([[[]], [{}], {"a": 1}])
    if setting.kind in ("number", "whole"):
        wrong |= st.sampled_from([float("nan"), float("inf"), True, "hot", -3, -2.5])
    if setting.kind == "whole":
        wrong |= st.sampled_from([1.5, 2**63])
    if setting.high is not None:
        wrong |= st.integers(int(setting.high) + 1, 2**62)
    if setting.name in ("top_p", "min_p"):
        wrong |= st.floats(1.001, 1e9)
    if setting.kind == "flag":
        wrong |= st.sampled_from([0, 1, "yes", 1.0])
    if setting.kind == "choice":
        wrong |= TEXT.filter(lambda text: text not in setting.choices) | st.integers()
    if setting.kind == "text":
        wrong |= st.sampled_from([3, True, "\0", "\ud800"])
    if setting.kind == "texts":
        wrong |= st.sampled_from([[""], [3], ["x"] * 65])
    if setting.kind == "ids":
        wrong |= st.sampled_from([[-1], [1.5], ["x"], [True]])
    if setting.kind == "bias":
        wrong |= st.sampled_from([{"x": 1}, {"5": 101}, {"5": "much"}, {"-1": 1}, [5]])
    return wrong


some_setting = st.sampled_from(SETTINGS)

# ---------------------------------------------------------------------------------------------- the schema


def test_every_default_is_in_its_own_range_and_every_name_is_there_once() -> None:
    for setting in SETTINGS:
        assert check(setting, written(setting, setting.default)) == setting.default
        assert setting.section in SECTIONS
        assert setting.help.endswith(".")
    assert len(BY_NAME) == len(SETTINGS)
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)


def test_defaults_are_those_of_the_engine() -> None:
    for name, setting in BY_NAME.items():
        if setting.section == "sampling":
            assert setting.default == getattr(SamplingSettings(), name)
        elif name in Load.__struct_fields__:
            assert setting.default == getattr(Load(), name)


def test_the_documented_file_is_toml_that_changes_nothing_and_its_comments_are_the_defaults() -> None:
    text = documented.documented()
    assert read(text) == SettingsFile(Path("settings.toml"))
    names = {setting.name for setting in SETTINGS}
    shown = "\n".join(
        line.removeprefix("# ") if line.removeprefix("# ").partition(" =")[0] in names else line
        for line in text.split("\n# -- Settings with a name")[0].split("\n")
    )
    file = read(shown)
    assert file.problems == ()
    assert file.values == {setting.name: setting.default for setting in SETTINGS}
    for line in text.splitlines():
        assert len(line) <= 120


@given(some_setting.flatmap(lambda s: st.tuples(st.just(s), bad(s))))
def test_every_value_out_of_range_is_refused_with_name_and_range(pair: tuple[Setting, Any]) -> None:
    setting, value = pair
    with pytest.raises(SettingError) as error:
        check(setting, value)
    assert error.value.field == setting.name
    assert f"{setting.name} must be {setting.expects}, not " in str(error.value)


@given(some_setting.flatmap(lambda s: st.tuples(st.just(s), good(s))))
def test_a_value_told_can_be_typed_again(pair: tuple[Setting, Any]) -> None:
    setting, value = pair
    if setting.kind == "bias":
        assert typed(setting, told(setting, value)) == {t: float(f"{bias:g}") for t, bias in value.items()}
    else:
        assert typed(setting, told(setting, value)) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0,5", 0.5), ("seed", "none", None), ("seed", "", None), ("max_tokens", "1,024", 1024),
        ("prefix_cache", "off", False), ("offline", "Yes", True), ("policy", "STATIC", "static"),
        ("stop", "###", ("###",)), ("stop", '["a", "b\\n"]', ("a", "b\n")), ("stop_ids", "1, 2 3", (1, 2, 3)),
        ("logit_bias", "5=-100 7=1.5", {5: -100.0, 7: 1.5}), ("system", " be brief ", " be brief "),
    ],
)  # fmt: skip
def test_values_are_read_as_people_write_them(name: str, text: str, value: object) -> None:
    assert typed(BY_NAME[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("temperature", "warm"), ("threads", "1.5"), ("prefix_cache", "maybe"), ("policy", "both"), ("stop", "[1"),
     ("stop_ids", "x"), ("logit_bias", "5"), ("window", "-1")],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_with_the_range(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be "):
        typed(BY_NAME[name], text)


def test_a_setting_is_found_by_its_name_or_its_full_name() -> None:
    assert find("temperature") is find("sampling.temperature") is BY_NAME["temperature"]
    assert find("max-tokens") is BY_NAME["max_tokens"]
    assert find("engine.temperature") is None
    assert find("warmth") is None


# ---------------------------------------------------------------------------------------------- the file

values_of_a_file = st.fixed_dictionaries({}, optional={setting.name: good(setting) for setting in SETTINGS})


@given(values_of_a_file, st.booleans())
def test_what_is_written_is_read_again(values: dict[str, Any], documented_first: bool) -> None:
    text = documented.documented() if documented_first else ""
    changes = {(BY_NAME[n].section, n): written(BY_NAME[n], v) for n, v in values.items()}
    new = changed(text, changes)
    file = read(new)
    least, most = values.get("min_tokens", 0), values.get("max_tokens")
    if most is None or least <= most:
        assert file.problems == ()
        assert file.values == values
    taken_out = changed(new, dict.fromkeys(changes, ABSENT))
    assert read(taken_out).values == {}


MINE = """\
# my settings
[engine]   # the machine
threads = 2
policy = "static"  # to see it

[sampling]
temperature = 0.5   # cool
# top_p is left alone
"""


def test_a_change_keeps_comments_and_order() -> None:
    new = changed(MINE, {("sampling", "temperature"): 0.9, ("screen", "theme"): "light", ("engine", "threads"): ABSENT})
    assert new == MINE.replace("0.5", "0.9").replace("threads = 2\n", "") + '\n[screen]\ntheme = "light"\n'


@given(TEXT)
def test_any_system_prompt_survives_the_file(text: str) -> None:
    for prompt in (text, f"{text}\nand\n{text}", f'"""{text}\n', f"{text}\\\n\\"):
        new = changed(MINE, {("presets", "a b.c", "system"): prompt})
        assert read(new).presets == {"a b.c": {"system": prompt}}
        assert new.startswith(MINE)


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[[[")
    with pytest.raises(SettingError, match="is not TOML"):
        put(path, {("chat", "system"): "x"})
    assert path.read_text() == "[[["


def test_the_file_is_made_with_its_folder_and_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "config" / "settings.toml"
    put(link, {("chat", "system"): "x"})
    link.rename(tmp_path / "dotfile")
    link.symlink_to(tmp_path / "dotfile")
    put(link, {("chat", "system"): "y"})
    assert link.is_symlink()
    assert load(tmp_path / "dotfile").values == {"system": "y"}
    assert [path.name for path in link.parent.iterdir()] == ["settings.toml"]


def test_what_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="can't be"):
        put(tmp_path / "file" / "settings.toml", {("chat", "system"): "x"})


PROBLEMS = """\
[sampling]
temprature = 0.5
top_p = 7
min_tokens = 9
max_tokens = 3
[engine]
temperature = 0.5
policy = "statik"
"threads" = "many"
[colours]
[presets.coder]
temperature = -1
theme = "x"
[templates.t]
txt = "x"
[servers.box]
url = "ftp://x"
[keys]
quit = 3
"""


@pytest.mark.parametrize(
    "sentence",
    [
        "line 2: unknown key 'temprature' in [sampling]; did you mean temperature?",
        "line 3: top_p must be a number above 0 and at most 1 (off), not 7; 1 is used.",
        "line 4: min_tokens (9) must not be above max_tokens (3).",
        "line 7: unknown key 'temperature' in [engine]; it belongs in [sampling].",
        "line 8: policy must be continuous or static, not 'statik'; continuous is used.",
        "line 9: threads must be a whole number from 0 to 4,096, not 'many'; 0 is used.",
        "line 10: unknown key 'colours'",
        "line 12: temperature must be a number from 0 (greedy) up, not -1.",
        "line 13: unknown key 'theme' in [presets.coder]",
        "line 15: unknown key 'txt' in [templates.t]; did you mean text?",
        'line 14: template t lacks its text = "…".',
        "line 16: server box needs a url that begins with http:// or https://.",
        'line 19: quit must be a key, such as "ctrl+x"',
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(sentence: str) -> None:
    file = read(PROBLEMS, Path("/c/settings.toml"))
    assert any(problem.startswith(f"/c/settings.toml {sentence}") for problem in file.problems), file.problems
    assert len(file.problems) == 13
    assert file.values == {"max_tokens": 3}
    assert file.presets == {"coder": {}}


@pytest.mark.parametrize("data", [b"[[[", b"\xff\xfe", b"a = " + b"[" * 5000, b"x = 1\r\n= 2"])
def test_a_broken_file_is_one_sentence_and_the_defaults(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(data)
    file = load(path)
    assert file.broken
    (problem,) = file.problems
    assert problem.startswith(str(path))
    assert problem.endswith("Nothing of it is used; the defaults are.")
    assert layers.Layers(file).values() == {setting.name: setting.default for setting in SETTINGS}


@given(st.binary(max_size=200) | TEXT.map(lambda text: f"[sampling]\n{text}".encode()))
def test_no_file_stops_the_start(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    values = layers.Layers(read(text)).values()
    border(SamplingSettings(**{name: values[name] for name in BY_NAME if BY_NAME[name].section == "sampling"}))


@pytest.mark.parametrize("name", ["preset", "server"])
def test_what_the_file_names_but_does_not_have_is_told_with_the_nearest(name: str) -> None:
    section = BY_NAME[name].section
    there = f'[{section}]\n{name} = "box"\n[{name}s.box]\n' + ('url = "http://box/v1"\n' if name == "server" else "")
    assert read(there).values == {name: "box"}
    file = read(there.replace('= "box"', '= "bax"'))
    assert file.values == {}
    assert file.problems == (f"settings.toml line 2: there is no {name} 'bax'; did you mean box?",)


def test_lines_are_found_past_strings_of_several_lines() -> None:
    text = 'a.b = 1\n[t] # x\ns = """\n[no]\nno = 1\n"""\n"q r" = 2\n[t.u."v w"]\nx = 3\n'
    assert tomllib.loads(text)
    found = line_numbers(text)
    assert found["a", "b"] == 1
    assert found["t", "q r"] == 7
    assert found["t", "u", "v w", "x"] == 9
    assert ("no",) not in found
    assert ("t", "no") not in found


# ------------------------------------------------------------------------------------------------ layers


def test_default_file_preset_variable_and_flag_win_in_this_order() -> None:
    file = read("[sampling]\ntemperature = 1\n[presets.p]\ntemperature = 2.0")
    variables, problems = layers.read_variables({"CUTAWAY_TEMPERATURE": "3", "CUTAWAY_SEED": "", "CUTAWAY_TOP_K": "x"})
    assert [str(p) for p in problems] == ["CUTAWAY_TOP_K: top_k must be a whole number, 0 (off) or more, not 'x'."]
    assert variables == {"temperature": 3.0}

    def of(**given: Any) -> tuple[Any, str]:
        valued = layers.Layers(**{"file": SettingsFile(Path()), **given}).valued("temperature")
        return valued.value, valued.source

    assert of() == (0.7, "default")
    assert of(file=file) == (1.0, "file")
    assert of(file=file, preset="p") == (2.0, "preset p")
    assert of(file=file, preset="p", variables=variables) == (3.0, "CUTAWAY_TEMPERATURE")
    assert of(file=file, preset="p", variables=variables, flags={"temperature": 4.0}) == (4.0, "--temperature")
    switched = {"file": file, "preset": "p", "variables": variables, "flags": {"temperature": 4.0}}
    assert of(**switched, preset_first=True) == (2.0, "preset p")


# -------------------------------------------------------------------------------------------------- live


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(MINE)
    return path


def test_a_change_by_hand_is_seen_once(path: Path) -> None:
    settings = live.LiveSettings(layers.Layers(load(path), flags={"threads": 8}))
    assert not settings.look()
    path.write_text(MINE.replace("0.5", "0.75").replace("threads = 2", "threads = 3") + '[keys]\nquit = "f9"\n')
    seen = settings.look()
    assert seen == live.Changed({"temperature": 0.75}, keys=True, held={"threads": "--threads"})
    assert not settings.look()
    path.unlink()
    assert settings.look().values == {"temperature": 0.7, "policy": "continuous"}


def test_a_file_broken_while_the_chat_is_open_changes_nothing_and_is_told_once(path: Path) -> None:
    settings = live.LiveSettings(layers.Layers(load(path)))
    path.write_text("[[[")
    seen = settings.look()
    assert seen.values == {}
    (problem,) = seen.problems
    assert problem.endswith("What was set before stays.")
    assert settings.value("temperature") == 0.5
    path.write_text("[[[ ")
    assert settings.look().problems == ()
    path.write_text(MINE)
    assert not settings.look()


def test_presets_are_switched_to_and_left_again(path: Path) -> None:
    path.write_text(MINE + "[presets.hot]\ntemperature = 2.0\n")
    settings = live.LiveSettings(layers.Layers(load(path), flags={"temperature": 0.1}))
    assert settings.use_preset("hot")["temperature"] == 2.0
    assert settings.use_preset("")["temperature"] == 0.1
    with pytest.raises(SettingError, match="Did you mean hot"):
        settings.use_preset("hat")


@given(
    st.fixed_dictionaries({}, optional={n: good(BY_NAME[n]) for n in ("temperature", "top_k", "system", "policy")}),
    st.fixed_dictionaries({}, optional={n: good(BY_NAME[n]) for n in ("temperature", "seed", "stop", "prefix_cache")}),
)
def test_a_saved_preset_brings_back_what_was_there_when_it_was_saved(
    tmp_path_factory: pytest.TempPathFactory, in_file: dict[str, Any], present: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("presets") / "settings.toml"
    put(path, {(BY_NAME[n].section, n): written(BY_NAME[n], v) for n, v in in_file.items()})
    settings = live.LiveSettings(layers.Layers(load(path)))
    before = settings.use_preset("") | present
    try:
        settings.save_preset("mine", before)
    except SettingError:
        assert all(value == BY_NAME[name].default for name, value in before.items())
        return
    settings.use_preset("")
    assert settings.use_preset("mine") == before


# --------------------------------------------------------------------------------------------- templates


def test_a_template_is_filled_in_and_doubled_braces_are_braces() -> None:
    text = 'Say {text} in {language}, {text}! {{text}} {"a": 1} { } {1}'
    assert templates.fields(text) == ["text", "language"]
    made = templates.fill(text, {"text": "{language}", "language": "French"})
    assert made == 'Say {language} in French, {language}! {text} {"a": 1} { } {1}'


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(SettingError, match="needs the fields a, b"):
        templates.fill("{a} {b}", {})
    with pytest.raises(SettingError, match="no field 'lang'"):
        templates.fill("{language}", {"language": "x", "lang": "y"})


@given(TEXT)
def test_any_text_can_be_a_template(text: str) -> None:
    assert templates.fields(templates.escaped(text)) == []
    assert templates.fill(templates.escaped(text), {}) == text


def test_the_example_in_the_readme_has_no_mistake() -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    example = text.split("## Settings")[1].split("```toml\n")[1].split("```")[0]
    file = read(example)
    assert file.problems == ()
    assert all((file.values, file.presets, file.templates, file.servers, file.keys))
    assert made(file.keys).problems == ()
