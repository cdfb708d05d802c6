"""Write the table of providers in docs/models.md from their profiles: `python scripts/make_provider_table.py`. A test compares both.

Only cells that a profile cannot express are written here.
"""

import sys
from pathlib import Path

from mainspring.models.provider_table import PROVIDERS, ProviderProfile

PAGE = Path(__file__).resolve().parent.parent / "docs" / "models.md"
HEAD = "| provider | host | default model | key |\n|---|---|---|---|\n"

CELLS: dict[tuple[str, str], str] = {
    ("azure", "host"): "`endpoint` or `AZURE_OPENAI_BASE_URL`",
    ("azure", "model"): "a deployment",
    ("azure", "key"): "`AZURE_OPENAI_API_KEY`, or a login",
    ("foundry", "host"): 'this machine; `mode="cloud"`: `projectEndpoint`',
    ("foundry", "model"): f"`{PROVIDERS['foundry'].model}`; `{PROVIDERS['foundry'].cloud_model}`",
    ("foundry", "key"): "none; `AZURE_FOUNDRY_API_KEY`",
    ("github", "key"): "`GITHUB_TOKEN`, or of `gh`",
    ("langchain", "host"): "a chat model of LangChain",
    ("langchain", "model"): "of its class",
    ("langchain", "key"): "of its class",
    ("embedded", "host"): "this machine, in a child process",
}


def row(profile: ProviderProfile) -> str:
    """One line of the table."""
    name = profile.name
    addresses = [profile.base_url or "base_url", *profile.url_variables[:1]]
    host = " or ".join([f"`{address}`" for address in addresses])
    model = f"`{profile.model}`" if profile.model else "required"
    key = "a login" if profile.login else "none" if profile.key == "no" else f"`{profile.key_variables[0]}`"
    cells = {"host": host, "model": model, "key": key}
    values = [CELLS.get((name, column), text) for column, text in cells.items()]
    return f"| [`{name}`]({profile.docs}) | {' | '.join(values)} |\n"


def page() -> str:
    """The whole page, with a current table."""
    before, head, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    after = rest.partition("\n\n")[2]
    return f"{before}{head}{''.join([row(profile) for profile in PROVIDERS.values()])}\n{after}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
