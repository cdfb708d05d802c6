"""The tools of the skill, loaded in the agent's process when the skill is used."""

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
        """Greet a person.

        Args:
            name: The person's name.
            language: The language: english, french, german, or spanish.
        """
        greeting = GREETINGS.get(language.strip().lower())
        if greeting is None:
            raise ValueError(f"No greeting in {language}. Available: {', '.join(GREETINGS)}.")
        return greeting.format(name=name.strip())

    async def greeting_languages(self) -> list[str]:
        """List the available languages."""
        return list(GREETINGS)
