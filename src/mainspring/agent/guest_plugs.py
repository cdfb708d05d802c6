"""The plugins of one agent at another one: of a handoff target at the agent that runs, of the caller at an agent that is its tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from mainspring.agent.lifecycle import AssistPlug
from mainspring.lazy import lazy_class
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import Handler
from mainspring.mcp.tool_search import ToolSearchPlug
from mainspring.policies.disclosure import Disclosure
from mainspring.subagents.plug import GATE_HOOKS, Subagents, apply_gates_of, mark_plugin_handler
from mainspring.tools import Tool, ToolRegistry

if TYPE_CHECKING:
    from mainspring.skills.plug import SkillsPlug
else:
    SkillsPlug = lazy_class("mainspring.skills.plug", "SkillsPlug")


class GuestPlugs:
    """The permissions and other plugins of another agent, ``guest``: their handlers are called at ``host``, in addition to its own.

    They can deny what the host allows, never the reverse. They offer no tools. A plugin sees this object as its agent.

    Args:
        host: The agent that runs.
        guest: The agent whose plugins apply, too.
        name: The name of the agent for the plugins; unique among agents that run together.
        is_active: Returns True while the plugins apply.
        with_gates: Whether the gates that the application added to the guest apply, too.
    """

    def __init__(
        self,
        host: CoreAgent,
        guest: CoreAgent,
        name: str,
        is_active: Callable[[], bool] = lambda: True,
        *,
        with_gates: bool = True,
    ) -> None:
        self._host, self._guest = host, guest
        self._is_active = is_active
        self._only_gates = False
        self.name = name
        self.tools = _KnownTools(guest.tools)
        self.bus = self
        offering = (Disclosure, ToolSearchPlug, Subagents, AssistPlug)
        self._plugs: list[Plugin] = []
        self._is_gate_of_application = False
        for plug in getattr(guest, "active_plugs", guest.plugs):
            shared = any(plug is each for each in host.plugs)
            if shared or isinstance(plug, offering):
                continue
            child = plug.for_child()
            if child is not None:
                self._only_gates = isinstance(child, SkillsPlug)  # they add to the prompt
                child.install(cast("CoreAgent", self))
                self._plugs.append(child)
        self._only_gates, self._is_gate_of_application = False, True
        for gate in GATE_HOOKS if with_gates else ():
            self.on(gate, apply_gates_of(gate, guest))
        cast("Any", host).guests += (self,)

    def attach_disclosure(self) -> Disclosure | None:
        """Lock tools of the guest while the plugins apply, as its own disclosure does; ``None`` if it has none."""
        found = next((p for p in self._guest.plugs if isinstance(p, Disclosure)), None)
        if found is None:
            return None
        own = found.for_child()
        own.install(cast("CoreAgent", _ActiveGuest(self, self._host, self._guest)))
        return own

    @property
    def active_plugs(self) -> Sequence[Plugin]:
        """The plugins that apply now; subagents of the host get theirs, too."""
        return self._plugs if self._is_active() else ()

    def on(self, event: Any, handler: Handler[Any], *, order: int = 0, subagents: bool = False) -> Callable[[], None]:
        """Register a handler that is called while the plugins apply."""
        if self._only_gates and event not in GATE_HOOKS:
            return lambda: None

        def call(hook: Any) -> Any:
            return handler(hook) if self._is_active() else None

        mark_plugin_handler(call, is_of_plugin=not self._is_gate_of_application)
        return self._host.bus.on(event, call, order=order, subagents=subagents)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)


class _ActiveGuest:
    """The guest while it continues the run of the host: its own tools and model, with the hooks and active tools of the run."""

    def __init__(self, bus: GuestPlugs, host: CoreAgent, guest: CoreAgent) -> None:
        self.bus, self._host, self._guest = bus, host, guest

    @property
    def active_tools(self) -> Sequence[str]:
        return self._host.active_tools

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)


class _KnownTools(ToolRegistry):
    """A copy of an agent's tools, to which its plugins have added theirs already."""

    __slots__ = ()

    def add(self, tool: Tool) -> None:
        if tool.name not in self._tools:
            super().add(tool)
