"""The tools of the skill: loaded when it is used, in the process of the agent."""

from __future__ import annotations

GREETINGS = {
    "english": "Hello, {name}!",
    "french": "Bonjour, {name} !",
    "german": "Guten Tag, {name}!",
    "spanish": "¡Hola, {name}!",
}


class HelloToolset:
    """Greets people."""

    async def hello(self, name: str, language: str = "english") -> str:
        """Greet somebody.

        Args:
            name: Whom to greet.
            language: In which language: english, french, german or spanish.
        """
        greeting = GREETINGS.get(language.strip().lower())
        if greeting is None:
            raise ValueError(f"there is no greeting in {language}; there are {', '.join(GREETINGS)}")
        return greeting.format(name=name.strip())

    async def greeting_languages(self) -> list[str]:
        """List the languages that there are greetings in."""
        return list(GREETINGS)
