"""The main screen's actions on the engine: settings, switches, traffic. What is shown comes back from the engine."""

from __future__ import annotations

from ...engine import places
from ...engine.errors import CutawayError
from ...engine.protocol import (
    Abort,
    CardChanged,
    ClearCache,
    Configure,
    Event,
    Failed,
    Inspect,
    ModelCard,
    Pause,
    Ready,
    Resume,
    SamplingSettings,
    StepOnce,
)
from .. import traffic
from ..controls.bar import ControlsBar
from ..controls.model import Number
from ..state.choice import Choice
from .base import MainBase


class EngineActions(MainBase):
    """Turn switches, set sampling, pause and step, send traffic, start the engine again."""

    def _lacks(self, capability: str) -> bool:
        """Whether what is loaded can't do something; then the reason is said."""
        reason = self.session.state.lacks(capability)
        if reason:
            self.say(reason, "warning")
        return bool(reason)

    def action_delivery(self) -> None:
        now = self.session.state.switches.delivery
        self.session.send(Configure(delivery="buffered" if now == "streamed" else "streamed"))

    def action_policy(self) -> None:
        if self._lacks("switches"):
            return
        now = self.session.state.switches.policy
        self.session.send(Configure(policy="static" if now == "continuous" else "continuous"))

    def action_prefix_cache(self) -> None:
        if not self._lacks("switches"):
            self.session.send(Configure(prefix_cache=not self.session.state.switches.prefix_cache))

    def action_kv_reuse(self) -> None:
        if not self._lacks("switches"):
            self.session.send(Configure(kv_reuse=not self.session.state.switches.kv_reuse))

    def action_pause(self) -> None:
        if not self._lacks("pause"):
            self.session.send(Resume() if self.session.state.switches.paused else Pause())

    def action_step(self) -> None:
        if self._lacks("pause"):
            return
        if self.session.state.switches.paused:
            self.session.send(StepOnce())
        else:
            self.session.send(Pause())

    def action_clear_cache(self) -> None:
        if self._lacks("switches"):
            return
        self.session.send(ClearCache())
        self.say("Cached pages without an owner are forgotten.")

    def action_restart(self) -> None:
        if self.session.unloaded is not None and self.session.state.card is None and self.session.trouble is None:
            self.session.load_model(self.session.link.load.model)
            self.changed([])
            return
        if self.session.trouble is None:
            self.say("The engine is running.")
            return
        self.wake_engine()
        self.path_changed()

    # ------------------------------------------------------------------------------------------------ models

    def action_models(self) -> None:
        def chosen(choice: Choice | None) -> None:
            if choice is not None:
                self.use_choice(choice)

        session = self.session
        if session.link.alive:
            session.link.ask(Inspect(machine=True))  # for the next time: memory comes and goes
        sources = session.answering.sources
        from ..models.choices import Choices  # they bring numpy along, and the first paint does not wait for that
        from ..models.picker import ModelPicker

        choices = Choices(
            session.link.load, session.state.card, session.state.machine, session.link.elsewhere,
            sources.servers() if sources is not None else None, session.answering.now,
        )  # fmt: skip
        self.app.push_screen(ModelPicker(choices), chosen)

    def use_choice(self, choice: Choice) -> None:
        """Let a server or another model answer this chat; it goes on with it when that is there."""
        try:
            self.session.choose(choice)
        except CutawayError as error:
            self.say(str(error), "error")
            return
        self.session.revive()
        self.changed([])

    def action_cancel_load(self) -> None:
        if self.session.link.loading:
            self.session.link.cancel_load()
        else:
            self.say("Nothing is being loaded.")

    def tell_engine(self, event: Event | None) -> None:
        """Say in passing what an event tells of the engine and shows nowhere else."""
        if isinstance(event, Failed):
            self.tell_failure(event)
        elif isinstance(event, Ready | CardChanged):
            self.tell_kernels(event.card)

    def tell_kernels(self, card: ModelCard) -> None:
        """Let the seconds go on while our kernels are compiled; say it when they have taken over."""
        replaced, self._replaced = self._replaced, card.kernel if card.compiling else ""
        if card.compiling and not replaced:
            self.set_timer(1.0, self._count_seconds)
        elif replaced and not card.compiling and card.kernel != replaced:
            self.say(f"Our own kernels answer from now on: {card.kernel}.")

    _replaced = ""  # the kernel that answers until ours are compiled

    def _count_seconds(self) -> None:
        card = self.session.state.card
        if card is not None and card.compiling:
            self.changed([])
            self.set_timer(1.0, self._count_seconds)

    def tell_failure(self, event: Failed) -> None:
        """Say what went wrong in passing; of a model that was not loaded, also which one answers now."""
        if self.session.went_back:
            self.say(f"{event.message} {event.action} Back to {self.session.answering.told}.", "error")
            return
        if event.fatal or event.request:
            return
        if not event.loading:
            self.say(f"{event.message} {event.action}".strip(), "error")
            return
        card = self.session.state.card
        goes_on = f" {card.name} goes on." if card is not None else ""
        if event.kind == "cancelled":
            self.say(f"{event.message}{goes_on}")
        else:
            self.say(f"{event.message} {event.action}{goes_on}", "error")

    # --------------------------------------------------------------------------------------------- sampling

    @property
    def controls(self) -> ControlsBar:
        return self.query_one(ControlsBar)

    def on_controls_bar_changed(self, event: ControlsBar.Changed) -> None:
        event.stop()
        self.set_sampling(event.settings)

    def on_controls_bar_typed(self, event: ControlsBar.Typed) -> None:
        event.stop()
        self.type_number(event.number)

    async def on_controls_bar_invoked(self, event: ControlsBar.Invoked) -> None:
        event.stop()
        await self.run_action(event.action)

    def type_number(self, number: Number) -> None:
        """Ask for a value of one setting."""

        def typed(settings: SamplingSettings | None) -> None:
            if settings is not None:
                self.set_sampling(settings)

        settings = self.session.exchange.settings
        value = getattr(settings, number.field)
        hint = f"{number.title}. Empty: {'as many as fit' if number.field == 'max_tokens' else 'off, or by default'}."
        self.ask_value(
            number.field.replace("_", " "),
            "" if value is None else f"{value:.{number.decimals}f}",
            hint,
            lambda text: number.read(self.session.exchange.settings, text),
            typed,
        )

    def set_sampling(self, settings: SamplingSettings) -> None:
        """Use these settings for what is being written in this chat and for what comes."""
        self.session.exchange.settings = settings
        self.controls.take(settings)
        for node in self.session.conversation.path():
            if node.running and node.reply is not None:
                self.session.send(Configure(request=node.reply.request, settings=settings))

    # ---------------------------------------------------------------------------------------------- traffic

    def action_traffic(self) -> None:
        self.start_traffic(None)

    def action_traffic_file(self) -> None:
        def typed(prompts: list[str] | None) -> None:
            if prompts is not None:
                self.start_traffic(prompts)

        hint = "A text file: one prompt a line, or prompts of several lines with empty lines between."
        self.ask_value("traffic file", "", hint, lambda text: traffic.read_prompts(places.named(text.strip())), typed)

    def start_traffic(self, prompts: list[str] | None) -> None:
        """Send a round of background requests: the built-in ones, or these."""
        self.wake_engine()
        many = len(traffic.BUILT_IN) if prompts is None else len(prompts)
        names = [self.session.exchange.name("traffic") for _ in range(many)]
        requests = traffic.submits(names, self.session.exchange.settings, prompts)
        self.session.traffic.update(names)
        self.session.send(*requests)
        stops = self.keymap.hint("stop_traffic", "stops them", letter=True)
        self.say(f"{many} background requests sent{f'; {stops}' if stops else ''}.")

    def action_stop_traffic(self) -> None:
        self.session.send(*(Abort(name) for name in sorted(self.session.traffic)))
