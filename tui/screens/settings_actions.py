"""The main screen's actions on settings: the settings screen, presets, templates, themes, keys; changes taken over."""

from __future__ import annotations

from typing import Any

import msgspec
from textual.binding import BindingsMap

from ...engine import settings as border
from ...engine.errors import CutawayError, SettingError
from ...engine.protocol import Configure
from .. import keymap
from ..actions import ACTIONS
from ..settings import templates
from ..settings.live import NOWHERE, Changed, LiveSettings
from ..settings.prompts import system_text
from ..settings.schema import BY_NAME, IN_PRESETS, WHEN
from ..settings.values import told
from .engine_actions import EngineActions

LONG = 20  # seconds that a problem of the file is shown
LOOK_EVERY = 1.0  # seconds between two looks at the file's time
_SWITCHES = {"policy": "policy", "prefix_cache": "prefix_cache", "kv_reuse": "kv_reuse", "delivery": "delivery",
             "lanes": "max_lanes", "token_budget": "token_budget"}  # fmt: skip


class SettingsActions(EngineActions):
    """Settings of the file, applied while the chat is open."""

    settings: LiveSettings

    def begin_settings(self) -> None:
        """Use the settings, and look at their file from now on."""
        self.use_keys()
        if self.settings.file.path != NOWHERE:
            self.set_interval(LOOK_EVERY, self.look_at_settings)

    def look_at_settings(self) -> None:
        """Take over what was changed in the file by hand."""
        if changed := self.settings.look():
            self.take(changed)
            self._tell_changes(changed)

    def _tell_changes(self, changed: Changed) -> None:
        for problem in changed.problems:
            self.say(problem, "warning", seconds=LONG)
        names = [name for name in changed.values if BY_NAME[name].takes != "start"]
        later = [name for name in changed.values if BY_NAME[name].takes == "start"]
        told_now = [f"{name} {self._shown(name)}" for name in names] + (["keys"] if changed.keys else [])
        if told_now:
            self.say(f"Settings taken over: {', '.join(told_now)}.")
        if later:
            self.say(f"{', '.join(later)}: changed, {WHEN['start']}.")
        for name, source in changed.held.items():
            self.say(f"{name} was changed in the file; {source} holds in this chat.")

    def _shown(self, name: str) -> str:
        text = " ".join(told(BY_NAME[name], self.settings.value(name)).split())
        return text if len(text) <= 30 else text[:29] + "…"

    # ---------------------------------------------------------------------------------------- taking over

    def take(self, changed: Changed) -> None:
        """Apply what has changed and can be applied to an open chat."""
        self.apply_values(changed.values)
        if changed.keys:
            self.use_keys()

    def apply_values(self, values: dict[str, Any] | Any) -> None:
        """Let these settings hold from now on, as far as that can be while a chat is open."""
        sampling = {name: value for name, value in values.items() if BY_NAME[name].section == "sampling"}
        if sampling:
            try:
                settings = border.check(msgspec.structs.replace(self.session.exchange.settings, **sampling))
            except SettingError as error:
                self.say(str(error), "warning")
            else:
                self.set_sampling(settings)
        switches = {field: values[name] for name, field in _SWITCHES.items() if name in values}
        if switches:
            link = self.session.link
            link.configure = msgspec.structs.replace(link.configure or Configure(), **switches)
            now = self.session.state.switches
            if new := {field: value for field, value in switches.items() if getattr(now, field) != value}:
                self.session.send(Configure(**new))
        if "system" in values:
            self._system(values["system"])
        if "theme" in values:
            self._theme(values["theme"])

    def _system(self, value: str) -> None:
        """New chats begin with it, and the one shown if it has not begun."""
        try:
            text = system_text(value)
        except SettingError as error:
            self.say(str(error), "warning")
            return
        conversation = self.session.conversation
        if not conversation.root.children:
            conversation.system = text
        self.session.system = text

    def _theme(self, name: str) -> None:
        choose = getattr(self.app, "choose_theme", None)
        if choose is not None and (problem := choose(name)):
            self.say(problem, "warning")

    def use_keys(self) -> None:
        """Let the keys of the settings hold, everywhere they are shown too."""
        file = self.settings.file
        made = keymap.made(file.keys, file.key_lines)
        bindings = BindingsMap.merge([EngineActions._merge_bindings()])
        for action in ACTIONS:
            for binding in made.bindings(action):
                bindings.key_to_bindings[binding.key] = [binding]
        self._bindings = bindings
        if (use := getattr(self.app, "use_keys", None)) is not None:
            use(made)
        self.refresh_bindings()
        for problem in made.problems:
            if problem not in self.keymap.problems:
                self.say(f"{file.path.name} {problem}", "warning", seconds=LONG)
        self.keymap = made
        self.keys_changed()

    def keys_changed(self) -> None:
        """Draw every hint again."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------- screens

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_settings(self) -> None:
        from .settings import SettingsDialog

        self.look_at_settings()
        self.app.push_screen(SettingsDialog(self.settings, self.take, self.present))

    def action_theme(self) -> None:
        from .themes import ThemesDialog

        def kept(name: str | None) -> None:
            if name is not None:
                self._keep("theme", name)

        self.app.push_screen(ThemesDialog(), kept)

    def _keep(self, name: str, value: Any) -> None:
        """Write a setting into the file, if there is one."""
        try:
            self.take(self.settings.write(name, value))
        except CutawayError as error:
            self.say(f"Not kept: {error}", "warning")
        else:
            source = self.settings.valued(name).source
            held = f"; {source} holds at the next start as long as it is there" if source.startswith("C") else ""
            self.say(f"{name} {value} is kept{held}.")

    # --------------------------------------------------------------------------------------------- presets

    def present(self) -> dict[str, Any]:
        """What the chat uses at this moment of what a preset may hold."""
        settings, switches = self.session.exchange.settings, self.session.state.switches
        values: dict[str, Any] = {"system": self.session.conversation.system}
        for name in IN_PRESETS:
            if name in _SWITCHES:
                values[name] = getattr(switches, _SWITCHES[name])
            elif name != "system":
                values[name] = getattr(settings, name)
        return values

    def action_presets(self) -> None:
        presets = self.settings.file.presets
        if not presets:
            self.say(
                f"There is no preset yet. The palette ({self.keymap.shown('palette')}) saves the present settings."
            )
            return
        names = ["", *presets]
        lines = [f"{'▸' if name == self.settings.layers.preset else ' '} {self._line(name)}" for name in names]

        def chosen(index: int | None) -> None:
            if index is not None:
                self.use_preset(names[index])

        at = names.index(self.settings.layers.preset) if self.settings.layers.preset in names else 0
        self.ask_choice("presets", lines, chosen, at)

    def _line(self, name: str) -> str:
        if not name:
            return "no preset"
        held = self.settings.file.presets[name]
        return f"{name}  ·  " + ", ".join(
            "system prompt" if key == "system" else f"{key} {told(BY_NAME[key], value)}" for key, value in held.items()
        )

    def use_preset(self, name: str) -> None:
        """Switch to a preset, or with "" to none: for this chat from its next message on, and for new ones."""
        before = self.settings.file.presets.get(self.settings.layers.preset, {}).get("system")
        try:
            values = self.settings.use_preset(name)
        except SettingError as error:
            self.say(str(error), "warning")
            return
        conversation = self.session.conversation
        kept = conversation.system
        self.apply_values(values)
        conversation.system = self.session.system
        # A system prompt that somebody wrote for this chat stays, unless the preset brings its own.
        if "system" not in self.settings.file.presets.get(name, {}) and kept not in ("", before):
            conversation.system = kept
        self.session.store.save(conversation)
        self.path_changed()
        self.say(f"Preset {self._line(name)}" if name else "No preset: the settings hold as they are in the file.")

    def action_save_preset(self) -> None:
        def named(name: str | None) -> None:
            if not name:
                return
            try:
                self.take(self.settings.save_preset(name, self.present()))
            except CutawayError as error:
                self.say(f"Not saved: {error}", "warning")
            else:
                self.say(f"Saved as preset {self._line(name)}")

        hint = "Sampling, switches and system prompt as they are now. A preset of the same name is replaced."
        self.ask_value("save as preset", "", hint, _preset_name, named)

    # ------------------------------------------------------------------------------------------- templates

    def action_templates(self) -> None:
        names = list(self.settings.file.templates)
        if not names:
            self.say(f'There is no template yet: [templates.NAME] text = "… {{field}} …" in {self.settings.file.path}.')
            return
        lines = [f"{name}  ·  {' '.join(self.settings.file.templates[name].split())[:60]}" for name in names]

        def chosen(index: int | None) -> None:
            if index is not None:
                self.use_template(names[index])

        self.ask_choice("templates", lines, chosen)

    def use_template(self, name: str) -> None:
        """Ask for the fields of a template, and put what it makes into the composer."""
        text = self.settings.file.template(name)
        fields = templates.fields(text)

        def filled(values: dict[str, str] | None) -> None:
            if values is not None:
                self.composer.insert_text(templates.fill(text, values))
                self.action_write()

        if fields:
            from .template_form import TemplateForm

            self.app.push_screen(TemplateForm(name, fields), filled)
        else:
            filled({})


def _preset_name(text: str) -> str:
    name = " ".join(text.split())
    if not name:
        raise SettingError("preset", "a preset needs a name.")
    return name
