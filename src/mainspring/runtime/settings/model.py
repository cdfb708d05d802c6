"""The settings as typed values. A file has the same shape, with its keys in camelCase."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]


class ProviderSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """One provider.

    Attributes:
        api_key: Its key. The provider's variable, as in ``OPENAI_API_KEY``, wins over it.
        model: The model to use there.
        base_url: Where it is.
    """

    api_key: str | None = None
    model: str | None = None
    base_url: str | None = None


class Providers(Struct, frozen=True, kw_only=True):
    """In the file one object: ``default``, and beside it a section for each provider.

    Attributes:
        default: Name of the provider to use where a model names none.
        sections: What is set for each provider, by name.
    """

    default: str | None = None
    sections: dict[str, ProviderSettings] = {}

    def get(self, name: str) -> ProviderSettings:
        """What is set for a provider; an empty section where nothing is."""
        return self.sections.get(name) or ProviderSettings()


class AgentSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the agent works.

    Attributes:
        system_prompt: Instructions in place of the built-in ones; the facts about the folder are added to it.
        max_tokens: Most tokens of one answer.
        temperature: 0 to 2.
        max_turns: Most model calls of a run.
        max_seconds: Most seconds of a run.
        max_cost: Most US dollars of a run.
        max_total_tokens: Most tokens of a run, prompts and answers together.
    """

    system_prompt: str | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_turns: Count | None = None
    max_seconds: Amount | None = None
    max_cost: Amount | None = None
    max_total_tokens: Count | None = None


class PermissionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules, as ``--allow``, ``--ask`` and ``--deny`` take them. Those of all files and flags add up; deny wins, then ask."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class RetrySettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How failed model calls are tried again. ``None`` keeps the default.

    Attributes:
        enabled: Whether they are.
        max_retries: How often at most.
        base_delay_ms: First wait; it doubles from there.
        max_delay_ms: Longest wait.
        enable_jitter: Whether waits vary a little, so that many clients do not come back at once.
    """

    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    base_delay_ms: Count | None = None
    max_delay_ms: Count | None = None
    enable_jitter: bool | None = None


class AppConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set.

    Attributes:
        model: ``provider:model``, or a model of the default provider.
        providers: The providers.
        agent: How the agent works.
        permissions: What tools may do.
        retry: How failed model calls are tried again.
    """

    model: str | None = None
    providers: Providers = Providers()
    agent: AgentSettings = AgentSettings()
    permissions: PermissionSettings = PermissionSettings()
    retry: RetrySettings = RetrySettings()
