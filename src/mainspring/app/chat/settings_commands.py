"""Slash commands that show and change settings: model, reasoning, mode, permissions, trust, configuration, and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from mainspring.app.chat.agent_settings import ModelSwitch, ModeSwitch
from mainspring.app.chat.approvals import ApprovalManager
from mainspring.app.chat.command_results import Choice, CommandResult, Fields, Picker, Table, Text, UiSetting
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.runs import RunController
from mainspring.app.chat.slash_commands import SlashCommand
from mainspring.app.chat.types import AgentMode, ThinkingLevelName, parse_mode
from mainspring.app.providers.availability import list_models
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.manage_settings import change_config, describe_settings
from mainspring.app.workspace.memory import add_memory, list_memory_files
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.permissions import explain_permission
from mainspring.app.workspace.saved_rules import REACHES, GrantEffect, Reach, pick
from mainspring.app.workspace.settings.schema import ThemeName
from mainspring.app.workspace.trust import TrustStore
from mainspring.app.workspace.trust_actions import (
    list_active_content,
    list_trusted_folders,
    trust_folder,
    untrust_folder,
)
from mainspring.errors import ConfigError
from mainspring.models.catalog import load_catalog
from mainspring.permissions import PermissionRule, RuleSet, SessionGrant, find_unused_rules

_MODES: tuple[tuple[AgentMode, str], ...] = (
    ("default", "Ask before changing anything"),
    ("accept_edits", "Edit files of the project without asking"),
    ("plan", "Only read, and end with a plan"),
)
_THEMES: dict[ThemeName, str] = {
    "auto": "Dark or light, as the terminal reports",
    "dark": "For a dark background",
    "light": "For a light background",
    "high-contrast": "Bright text without gray, for the reported background",
    "color-blind": "Blue and orange in place of green and red",
    "plain": "No colors",
}
_PROVIDER_DEFAULT = "Use the default of the provider"


class AgentCommands:
    """``/model``, ``/thinking``, and ``/mode``.

    Args:
        models: The model and its reasoning effort.
        mode: The mode.
        runs: Executes a plan.
        current: The conversation.
        launch: Options that select the available models.
        environ: Environment variables.
    """

    def __init__(
        self,
        models: ModelSwitch,
        mode: ModeSwitch,
        runs: RunController,
        current: CurrentConversation,
        launch: LaunchOptions,
        environ: Mapping[str, str],
    ) -> None:
        self._models = models
        self._mode = mode
        self._runs = runs
        self._current = current
        self._launch = launch
        self._environ = environ

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands."""
        return (
            SlashCommand(
                name="model",
                summary="Show the models or switch to another one",
                arguments="[PROVIDER:MODEL]",
                run=self._run_model,
                complete=self._complete_models,
            ),
            SlashCommand(
                name="thinking",
                summary="Show or set the reasoning effort",
                arguments="[LEVEL]",
                run=self._run_thinking,
                complete=self._complete_levels,
            ),
            SlashCommand(
                name="mode",
                summary="Switch to default, accept_edits, or plan, or execute the plan",
                arguments="[MODE]",
                run=self._run_mode,
                complete=self._complete_modes,
            ),
        )

    async def _run_model(self, arguments: str) -> CommandResult:
        requested = arguments.strip()
        if requested:
            self._models.switch(requested)
            return Text(f"Switched to {self._current.conversation.choice.name.spec}.")
        name = self._current.conversation.choice.name
        choices = [
            Choice(
                view.spec,
                f"/model {view.spec}",
                "; ".join(filter(None, (view.label, view.state, view.note))),
                view.spec == name.spec,
            )
            for view in await list_models(self._launch.place, self._environ)
            if view.state != "missing"
        ]
        if not any(choice.current for choice in choices):
            choices.insert(0, Choice(name.spec, f"/model {name.spec}", name.label, True))
        return Picker("Models", tuple(choices))

    async def _complete_models(self) -> Sequence[tuple[str, str]]:
        config = self._current.conversation.settings.config
        names: list[tuple[str, str]] = []
        for provider in registry_of(config).names():
            ids = [entry.id for entry in load_catalog().entries(provider)]
            ids += [id for id in config.providers.get(provider).models if id not in ids]
            names += [(f"{provider}:{id}", "") for id in ids]
        return names

    async def _run_thinking(self, arguments: str) -> CommandResult:
        requested = arguments.strip().lower()
        if not requested:
            level = self._current.agent.thinking
            choices = [Choice(each, f"/thinking {each}", "", each == level) for each in get_args(ThinkingLevelName)]
            default = Choice("default", "/thinking default", _PROVIDER_DEFAULT, level is None)
            return Picker("Reasoning effort", (default, *choices))
        self._models.set_thinking(None if requested == "default" else requested)
        return Text(f"Reasoning effort set to {requested}.")

    async def _complete_levels(self) -> Sequence[tuple[str, str]]:
        return [("default", _PROVIDER_DEFAULT), *[(level, "") for level in get_args(ThinkingLevelName)]]

    async def _run_mode(self, arguments: str) -> CommandResult:
        requested = arguments.strip()
        if not requested:
            plan = self._current.conversation.plan
            choices = [Choice(name, f"/mode {name}", about, name == self._mode.mode) for name, about in _MODES]
            if plan is not None and plan.state.file:
                choices.append(Choice("execute", "/mode execute", f"Execute {plan.state.file}"))
            return Picker("Mode", tuple(choices))
        if requested.lower() == "execute":
            self._runs.execute_plan("")
            return Text("Executing the plan.")
        mode = parse_mode(requested)
        if mode is None:
            raise ConfigError(f"Unknown mode: {requested}. Use default, accept_edits, plan, or execute.")
        self._mode.set(mode)
        return Fields((("mode", mode), ("effect", dict(_MODES)[mode])))

    async def _complete_modes(self) -> Sequence[tuple[str, str]]:
        return [*_MODES, ("execute", "Leave plan mode and execute the plan")]


class _Grant(Struct, frozen=True):
    """Something that was granted or denied, and that can be revoked.

    Attributes:
        effect: Whether it allows or denies.
        text: The rule, or the action and its object.
        reach: Where it applies.
        place: Where it is stored.
        source: The saved rule or the session grant; None for all edits in the session.
    """

    effect: str
    text: str
    reach: str
    place: str
    source: PermissionRule | SessionGrant | None = None


_ALL_EDITS = "all edits in this project"
_SESSION = ("this session", "memory, until the session ends")
_USAGE = (
    "Use /permissions, /permissions allow [--global] RULE, /permissions deny [--global] RULE, "
    "/permissions revoke NUMBER or RULE, or /permissions explain TOOL ARGUMENTS."
)


class PermissionCommands:
    """``/permissions``: lists what is granted and the rules, and grants, denies, revokes, and explains.

    Args:
        current: The conversation.
        approvals: Where rules are saved.
        mode: The mode, which accepts all edits.
        launch: Options with the rules of the command line.
        environ: Environment variables.
    """

    def __init__(
        self,
        current: CurrentConversation,
        approvals: ApprovalManager,
        mode: ModeSwitch,
        launch: LaunchOptions,
        environ: Mapping[str, str],
    ) -> None:
        self._current = current
        self._approvals = approvals
        self._mode = mode
        self._launch = launch
        self._environ = environ

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the command."""
        return (
            SlashCommand(
                name="permissions",
                summary="List what is granted and the rules; allow, deny, revoke, or explain",
                arguments="[allow RULE | deny RULE | revoke NUMBER | explain TOOL ARGUMENTS]",
                run=self._run,
                complete=lambda: _complete_words("allow", "deny", "revoke", "explain"),
            ),
        )

    async def _run(self, arguments: str) -> CommandResult:
        verb, _, rest = arguments.strip().partition(" ")
        rest = rest.strip()
        match verb:
            case "":
                return self._list()
            case "allow" | "deny" if rest:
                reach, text = _split_reach(rest)
                return await self._add_rule(reach, verb, text)
            case "revoke":
                return await self._revoke(rest) if rest else self._pick_grant()
            case "explain" if rest:
                tool, _, given = rest.partition(" ")
                return await self._explain(tool, given)
            case _:
                raise ConfigError(_USAGE)

    def _find_grants(self) -> list[_Grant]:
        """Return what can be revoked: saved rules, then what was granted for the session."""
        permissions, files = self._current.conversation.permissions, self._approvals.files
        grants: list[_Grant] = []
        for rule in files.saved(permissions.engine.rules):
            reach = files.reach_of(rule)
            grants.append(_Grant(rule.effect, rule.text, REACHES[reach] if reach else "", str(files.file(rule)), rule))
        if permissions.accept_edits:
            grants.append(_Grant("allow", _ALL_EDITS, *_SESSION))
        session_grants = permissions.session_grants
        return grants + [_Grant("allow", f"{each.action} {each.resource}", *_SESSION, each) for each in session_grants]

    def _list(self) -> CommandResult:
        grants, files = self._find_grants(), self._approvals.files
        rows = [(str(i), each.effect, each.text, each.reach, each.place) for i, each in enumerate(grants, 1)]
        others = [rule for rule in self._current.conversation.permissions.engine.rules if files.reach_of(rule) is None]
        rows += [("", rule.effect, rule.text, _describe_effect(rule), str(rule.origin)) for rule in others]
        return Table(
            ("#", "effect", "rule", "applies to", "stored in"),
            tuple(rows),
            "Permissions (/permissions revoke # revokes one)" if grants else "Permissions",
            "No rules yet. Reading in the project is allowed, everything else asks. "
            "Allow something in this project with: /permissions allow shell(npm test)",
        )

    def _pick_grant(self) -> CommandResult:
        choices = [
            Choice(f"{each.effect} {each.text}", f"/permissions revoke {i}", each.reach)
            for i, each in enumerate(self._find_grants(), 1)
        ]
        empty = 'Nothing is granted yet. Answer an approval with "always", or use /permissions allow.'
        return Picker("Revoke", tuple(choices), empty)

    async def _add_rule(self, reach: Reach, effect: GrantEffect, text: str) -> CommandResult:
        conversation, files = self._current.conversation, self._approvals.files
        rules = files.parse(reach, effect, (text,))
        unused = find_unused_rules(RuleSet(rules), [tool.name for tool in conversation.agent.tools])
        file = await asyncio.to_thread(files.save, reach, effect, (text,))
        conversation.permissions.add(*rules)
        warning = f". No tool matches it now: {unused[0]}" if unused else ""
        return Text(f"Saved for {REACHES[reach]} in {file}: {effect} {text}{warning}")

    async def _revoke(self, rule: str) -> CommandResult:
        permissions, files = self._current.conversation.permissions, self._approvals.files
        grants = self._find_grants()
        grant = pick(rule, [each.text for each in grants], grants)
        match grant.source:
            case PermissionRule():
                await asyncio.to_thread(files.remove, grant.source)
                permissions.remove(*files.same(grant.source, permissions.engine.rules))
            case SessionGrant():
                permissions.revoke(grant.source)
            case _:
                self._mode.set("default")
        return Text(f"Revoked for {grant.reach}: {grant.effect} {grant.text}")

    async def _explain(self, tool: str, arguments: str) -> CommandResult:
        launch = self._launch
        explanation = await explain_permission(tool, arguments, launch.place, launch.rules, self._environ)
        fields = [("outcome", explanation.outcome), ("reason", explanation.reason)]
        if explanation.rule is not None:
            rule = explanation.rule
            fields.append(("rule", f"{rule.effect} {rule.rule} ({rule.origin})"))
        fields += [(f"{part.scope} {part.resource}", f"{part.outcome}: {part.reason}") for part in explanation.parts]
        return Fields(tuple(fields), f"{explanation.tool} {arguments}".strip())


def _split_reach(text: str) -> tuple[Reach, str]:
    word, _, rest = text.partition(" ")
    if word != "--global":
        return "project", text
    if not rest.strip():
        raise ConfigError(_USAGE)
    return "everywhere", rest.strip()


def _describe_effect(rule: PermissionRule) -> str:
    return "" if rule.effect != "allow" or rule.origin.trusted else "nothing: the folder is not trusted"


class WorkspaceCommands:
    """``/trust``, ``/config``, ``/theme``, ``/vim``, and ``/memory``.

    Args:
        current: The conversation.
        launch: Options with the folder.
        environ: Environment variables.
    """

    def __init__(self, current: CurrentConversation, launch: LaunchOptions, environ: Mapping[str, str]) -> None:
        self._current = current
        self._place = launch.place
        self._environ = environ
        self._ui: dict[str, str] = {}  # changed since the settings were loaded

    def commands(self) -> tuple[SlashCommand, ...]:
        """Return the commands."""
        return (
            SlashCommand(
                name="trust",
                summary="Show whether this folder is trusted, trust it, or stop trusting it",
                arguments="[yes | no]",
                run=self._run_trust,
                complete=lambda: _complete_words("yes", "no"),
            ),
            SlashCommand(
                name="config",
                summary="Show the settings and where they come from, or change one",
                arguments="[KEY [VALUE]]",
                run=self._run_config,
                complete=self._complete_keys,
            ),
            SlashCommand(
                name="theme",
                summary="Show the color themes or switch to another one",
                arguments="[THEME]",
                run=self._run_theme,
                complete=lambda: _complete_words(*_THEMES),
            ),
            SlashCommand(name="vim", summary="Edit the input with the keys of vim, or stop it", run=self._run_vim),
            SlashCommand(
                name="memory", summary="Show the memory or add a note to it", arguments="[NOTE]", run=self._run_memory
            ),
        )

    async def _run_trust(self, arguments: str) -> CommandResult:
        cwd = self._current.cwd
        requested = arguments.strip().lower()
        next_step = "Takes effect when you start a new conversation (/clear)."
        if requested in ("yes", "on"):
            path = await asyncio.to_thread(trust_folder, cwd, self._place, self._environ)
            contents = await asyncio.to_thread(list_active_content, cwd, self._place, self._environ)
            lines = [f"{content.file}: {line}" for content in contents for line in content.what]
            return Text("\n".join([f"Trusted {path}. {next_step}", *lines]))
        if requested in ("no", "off"):
            path, was_trusted = await asyncio.to_thread(untrust_folder, cwd, self._place, self._environ)
            if not was_trusted:
                return Text(f"{path} is not in the list of trusted folders.")
            return Text(f"{path} is no longer trusted. {next_step}")
        if requested:
            raise ConfigError(
                "Use /trust to show the status, /trust yes to trust this folder, or /trust no to stop it."
            )
        is_trusted = await asyncio.to_thread(TrustStore(self._current.conversation.settings.home).covers, cwd)
        folders = await asyncio.to_thread(list_trusted_folders, self._environ)
        return Table(
            ("folder", "since"),
            tuple([(entry.folder, f"{entry.since:%Y-%m-%d}") for entry in folders]),
            f"{cwd} is {'trusted' if is_trusted else 'not trusted'}",
            "No trusted folders yet. Trust this one with /trust yes.",
        )

    async def _run_config(self, arguments: str) -> CommandResult:
        key, _, value = arguments.strip().partition(" ")
        if value.strip():
            change = await asyncio.to_thread(change_config, key, value.strip(), self._environ)
            notes = "".join([f"\nNote: {problem}" for problem in change.problems])
            return Text(
                f"Saved {key} in {change.file}. Takes effect when you start a new conversation (/clear).{notes}"
            )
        described = await asyncio.to_thread(describe_settings, self._place, self._environ)
        rows = [
            (each.key, msgspec.json.encode(each.value).decode(), each.origin)
            for each in described.settings
            if key in ("", each.key) or each.key.startswith(f"{key}.")
        ]
        empty = f"{key} is not set. Set it with /config {key} VALUE." if key else "No settings yet."
        return Table(("setting", "value", "from"), tuple(rows), "Settings", empty)

    async def _run_theme(self, arguments: str) -> CommandResult:
        requested = arguments.strip().lower()
        if not requested:
            current = self._ui.get("theme") or self._current.conversation.settings.config.ui.theme
            choices = [Choice(name, f"/theme {name}", about, name == current) for name, about in _THEMES.items()]
            return Picker("Theme", tuple(choices), preview="theme")
        if requested not in _THEMES:
            raise ConfigError(f"Unknown theme: {requested}. Use {', '.join(_THEMES)}.")
        return await self._change_ui("theme", requested)

    async def _run_vim(self, _: str) -> CommandResult:
        editing = self._ui.get("editing") or self._current.conversation.settings.config.ui.editing
        return await self._change_ui("editing", "emacs" if editing == "vim" else "vim")

    async def _change_ui(self, key: Literal["theme", "editing"], value: str) -> UiSetting:
        await asyncio.to_thread(change_config, f"ui.{key}", value, self._environ)
        self._ui[key] = value
        return UiSetting(key, value)

    async def _complete_keys(self) -> Sequence[tuple[str, str]]:
        described = await asyncio.to_thread(describe_settings, self._place, self._environ)
        return [(each.key, msgspec.json.encode(each.value).decode()) for each in described.settings]

    async def _run_memory(self, arguments: str) -> CommandResult:
        note = arguments.strip().removeprefix("add ").strip()
        if note:
            return Text(await add_memory(note, self._place, environ=self._environ, trust_command="/trust yes"))
        files = await asyncio.to_thread(list_memory_files, self._place, self._environ)
        parts = [
            f"## {file.where}: {file.path}{'' if file.read else ' (not read: the folder is not trusted)'}"
            f"\n\n{file.text or '(empty)'}"
            for file in files
        ]
        return Text("\n\n".join(parts) or "This folder has no memory file.", "Memory", markdown=True)


async def _complete_words(*names: str) -> Sequence[tuple[str, str]]:
    return [(name, "") for name in names]
