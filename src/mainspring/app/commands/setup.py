"""``mainspring config init`` and ``config provider``: set up a provider with questions on a terminal, or with flags."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from importlib import import_module

import msgspec
from msgspec.structs import replace

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import workspace_options
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.providers.setup import (
    PROVIDER_SETUPS,
    ProviderSetup,
    SetupAnswers,
    SetupQuestion,
    find_answer_problem,
    find_name_problem,
    list_providers,
    remove_provider,
    set_up_provider,
)
from mainspring.errors import ConfigError, MainspringError, ModelError
from mainspring.redaction import redact_environment

_CUSTOM_PROVIDER = "mine"


def run(options: argparse.Namespace, console: Console) -> int:
    """Set up, list, or remove providers, and return the exit code."""
    if options.action == "init":
        return _init(options, console, options.key)
    match options.key or "list":
        case "add":
            return _init(options, console, options.value)
        case "remove":
            file = remove_provider(options.value, workspace_options(options), project=options.project)
            console.info(f"Removed {options.value} from {file}")
            return 0
        case _:
            return _list(options, console)


def _list(options: argparse.Namespace, console: Console) -> int:
    views = list_providers(workspace_options(options))
    if options.json:
        console.data(redact_environment(msgspec.json.encode(views).decode()))
        return 0
    width = max(len(view.name) for view in views)
    for view in views:
        mark = "* " if view.default else "  "
        what = view.model if view.state == "ready" else "-"
        console.row(f"{mark}{view.name:{width}}  {view.state:7}  {what}  {view.label}".rstrip())
    console.info("Set one up with: mainspring config init NAME. Show what is missing with: mainspring check -v")
    return 0


def _init(options: argparse.Namespace, console: Console, name: str | None) -> int:
    given = _answers_from_flags(options)
    asks = sys.stdin.isatty() and not given
    if name is None:
        if not asks:
            raise ConfigError(
                f"config init requires a provider if stdin is not a terminal: mainspring config init NAME. Providers: {', '.join(PROVIDER_SETUPS)}"
            )
        name = _choose_provider(options, console)
    answers = SetupAnswers(provider=name, values=given, keyring=options.keyring)
    answers = replace(answers, default=not options.no_default, project=options.project)
    wizard = answers.wizard
    if asks:
        answers = _ask_questions(wizard, answers, console, offline=options.offline or options.no_test)
    else:
        defaults = {q.setting: q.default for q in wizard.questions if q.default and q.setting not in given}
        answers = replace(answers, values={**defaults, **given})
    if wizard.login and not options.no_test and asks and _confirm(f"Sign in to {wizard.label} now?"):
        code = import_module("mainspring.app.commands.login").log_in(wizard.provider, console, browser=True)
        if code:
            return code
    return _save(options, console, answers, asks=asks)


def _save(options: argparse.Namespace, console: Console, answers: SetupAnswers, *, asks: bool) -> int:
    test = not options.no_test

    def report_test() -> None:
        console.info(f"Testing {answers.provider}...")

    try:
        done = asyncio.run(set_up_provider(answers, workspace_options(options), test=test, on_test=report_test))
    except MainspringError as error:
        if not test:
            raise
        if not asks:
            if isinstance(error, ModelError):
                console.info("Your changes were not saved. To save them without a test, use --no-test.")
            raise
        console.fail(redact_environment(str(error)))  # advice about sessions and models would mislead here
        if not _confirm("Save it anyway?", default=False):
            console.info("No changes")
            return USAGE
        done = asyncio.run(set_up_provider(answers, workspace_options(options), test=False))
    if done.tried is not None:
        console.info(f"Response: {done.tried[:60]}" if done.tried else "The model responded")
    for note in done.notes:
        console.info(f"Note: {note}")
    console.info(f"Set up {answers.provider} in {done.file}. Model: {done.spec}")
    console.info('Try it: mainspring -p "What is in this folder?"')
    return 0


def _answers_from_flags(options: argparse.Namespace) -> dict[str, str]:
    """Return the values of the flags by the name of their setting.

    Raises:
        ConfigError: If a value is not ``NAME=VALUE``.
    """
    key = StdinReader().text().strip() if options.key_value == STDIN_MARK else options.key_value
    if options.key_value is not None and not key:
        raise ConfigError("The API key is empty.")
    flags = {
        "apiKey": key,
        "apiKeyCommand": options.key_command,
        "apiKeyFile": options.key_file and os.path.abspath(os.path.expanduser(options.key_file)),
        "baseUrl": options.url,
        "model": options.model,
    }
    if sum(bool(flags[name]) for name in ("apiKey", "apiKeyCommand", "apiKeyFile")) > 1:
        raise ConfigError("Use only one of --key, --key-command, and --key-file.")
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set requires NAME=VALUE, not {text!r}.")
        flags[name.strip()] = value
    return {name: value for name, value in flags.items() if value}


# --- questions on a terminal ------------------------------------------------------------------------------------------------


def _choose_provider(options: argparse.Namespace, console: Console) -> str:
    ready = {view.name for view in list_providers(workspace_options(options)) if view.state == "ready"}
    names = list(PROVIDER_SETUPS)
    console.info("Which provider?")
    for number, wizard in enumerate(PROVIDER_SETUPS.values(), 1):
        note = " (ready to use)" if wizard.provider in ready else ""
        console.info(f"  {number:2}  {wizard.provider:10}  {wizard.label}{note}")
    while True:
        answer = _prompt("Number or name", names[0]).lower()
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        if answer in PROVIDER_SETUPS:
            return answer
        console.info(f"Unknown provider: {answer!r}")


def _ask_questions(
    wizard: ProviderSetup, answers: SetupAnswers, console: Console, *, offline: bool = False
) -> SetupAnswers:
    """Ask for the values that the provider needs. The user confirms those that seem wrong."""

    def is_accepted(setting: str, value: str) -> bool:
        problem = asyncio.run(find_answer_problem(wizard.provider, setting, value, offline=offline))
        if problem:
            console.info(redact_environment(problem))
        return not problem or _confirm("Keep it anyway?", default=False)

    console.info(f"{wizard.label}: {wizard.about}")
    values = dict(answers.values)
    name = answers.provider
    if wizard.named and name == wizard.provider and name == "compatible":
        name = _prompt("Name of the provider", _CUSTOM_PROVIDER)
        while problem := find_name_problem(name):
            console.info(problem)
            name = _prompt("Name of the provider", _CUSTOM_PROVIDER)
    for question in wizard.questions:
        if not question.is_asked(values):
            continue
        value = _answer(question)
        while value and not is_accepted(question.setting, value):
            value = _answer(question)
        if value:
            values[question.setting] = value
    keyring = answers.keyring
    if wizard.wants_key != "no":
        variable = next((v for v in wizard.variables if os.environ.get(v, "").strip()), "")
        optional = (
            f", empty to use {variable}" if variable else ", empty for none" if wizard.wants_key == "maybe" else ""
        )
        key = getpass.getpass(f"API key (hidden{optional}): ").strip()
        while (not key and not optional) or (key and not is_accepted("apiKey", key)):
            key = getpass.getpass("API key (hidden): " if key else "The API key is required: ").strip()
        if key:
            values["apiKey"] = key
    return replace(answers, provider=name, values=values, keyring=keyring)


def _answer(question: SetupQuestion) -> str:
    text = question.text + (f" ({', '.join(question.choices)})" if question.choices else "")
    while True:
        value = _prompt(text, question.default)
        if question.choices and value not in question.choices:
            print(f"Choose {' or '.join(question.choices)}. Press Ctrl-C to cancel without changes.", file=sys.stderr)
            continue
        if value or not question.needed:
            return value
        print(f"{question.text} is required. Press Ctrl-C to cancel without changes.", file=sys.stderr)


def _prompt(text: str, default: str = "") -> str:
    print(f"{text}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip() or default


def _confirm(text: str, *, default: bool = True) -> bool:
    answer = _prompt(f"{text} {'(Y/n)' if default else '(y/N)'}").lower()
    return answer[:1] == "y" if answer else default
