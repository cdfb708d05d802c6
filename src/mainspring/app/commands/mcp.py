"""``mainspring mcp``."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Callable, Iterator

import msgspec

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.exit_codes import DONE, ERROR
from mainspring.app.cli.runner import framed, place_of
from mainspring.app.commands.mcp_actions import Servers, ServerView, log_in, log_out, look_at_servers, read_log
from mainspring.app.workspace.mcp_files import add_server, remove_server
from mainspring.counting import counted

_MARKS = {"ready": "ready  ", "failed": "failed ", "login": "login  ", "disabled": "off    ", "not tried": "       "}
_NAMED = ("add", "remove", "test", "login", "logout", "logs")


def run(options: argparse.Namespace) -> int:
    """Do what is asked; the exit code.

    Raises:
        UsageError: If the name, or what is to be added, is missing.
    """
    if options.action in _NAMED and not options.name:
        raise UsageError(
            f"mcp {options.action} needs the NAME of a server, as in: mainspring mcp {options.action} docs"
        )
    if options.action == "add":
        options.entry = _entry(options)
    work: dict[str, Callable[[argparse.Namespace, Console], int]] = {
        "list": _list,
        "add": _add,
        "remove": _remove,
        "test": _test,
        "tools": _tools,
        "login": _login,
        "logout": _logout,
        "logs": _logs,
    }
    return framed(options, lambda console: work[options.action](options, console))


# --- looking --------------------------------------------------------------------------------------------------------


def _look(options: argparse.Namespace, console: Console, *, connect: bool = True) -> Servers:
    names = [options.name] if options.name else []
    found = asyncio.run(look_at_servers(place_of(options), names, connect=connect))
    for notice in found.notices:
        console.say(notice)
    return found


def _list(options: argparse.Namespace, console: Console) -> int:
    found = _look(options, console, connect=not options.no_connect)
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return DONE
    width = max((len(s.name) for s in found.servers), default=0)
    for server in found.servers:
        console.row(f"{_MARKS[server.state]}  {server.name:{width}}  {_about(server)}")
    if not found.servers:
        console.say(
            "there are no MCP servers; add one: mainspring mcp add NAME -- COMMAND, or: mainspring mcp add NAME URL"
        )
    for line in _sum(found):
        console.say(line)
    return DONE


def _about(server: ServerView) -> str:
    if server.state == "ready":
        cost = server.cost
        told = f"{counted(cost.tools, 'tool')}, about {cost.eager} tokens in each request ({cost.lazy} if lazy); {server.disclosure}"
        return one_line(f"{told} ({server.target})", 300)
    return one_line(f"{server.error} ({server.target})".strip(), 400)


def _sum(found: Servers) -> Iterator[str]:
    """What all of them cost together, as they are configured."""
    ready = [s for s in found.servers if s.state == "ready"]
    if ready:
        now = sum(s.cost.eager if s.disclosure == "eager" else s.cost.lazy for s in ready) + found.search
        eager = sum(s.cost.eager for s in ready)
        yield f"together about {now} tokens in each request" + (
            f"; all eager it would be {eager}" if found.search else ""
        )


def _test(options: argparse.Namespace, console: Console) -> int:
    found = _look(options, console)
    [server] = found.servers
    if options.json:
        console.data(msgspec.json.encode(server).decode())
    elif server.state == "ready":
        console.row(f"{server.name} is ready after {server.seconds:.2f} s: {one_line(server.about, 200)}")
        console.row(f"it offers {', '.join(server.offers) or 'nothing'}")
        console.row(_about(server))
    else:
        console.fail(_unready(server))
    return DONE if server.state == "ready" else ERROR


def _unready(server: ServerView) -> str:
    return server.error or f"MCP server {server.name!r} is switched off in {server.place or 'its configuration'}"


def _tools(options: argparse.Namespace, console: Console) -> int:
    found = _look(options, console)
    if options.json:
        tools = [{"server": s.name, **msgspec.to_builtins(t)} for s in found.servers for t in s.tools]
        console.data(msgspec.json.encode(tools).decode())
    for server in found.servers:
        if server.state != "ready":
            console.fail(_unready(server))
        for tool in server.tools if not options.json else ():
            console.row(f"{tool.name}  {tool.tokens} tokens  {one_line(tool.description, 100)}")
    return ERROR if options.name and any(s.state != "ready" for s in found.servers) else DONE


def _logs(options: argparse.Namespace, console: Console) -> int:
    file, lines = read_log(options.name, place_of(options), lines=options.lines)
    if options.json:
        console.data(msgspec.json.encode({"file": str(file), "lines": lines}).decode())
        return DONE
    for line in lines:
        console.row(line)
    console.say(f"{file}" if lines else f"nothing was written yet; it would be in {file}")
    return DONE


# --- changing -------------------------------------------------------------------------------------------------------


def _entry(options: argparse.Namespace) -> dict[str, object]:
    """What is to be added, as it stands in the file."""
    words = [*filter(None, [options.target]), *options.command]
    if not words:
        raise UsageError("mcp add needs a command behind --, or a URL: mainspring mcp add docs -- npx -y docs-server")
    entry: dict[str, object] = {}
    if words[0].startswith(("http://", "https://")):
        if len(words) > 1:
            raise UsageError(f"a server at a URL takes no arguments: {' '.join(words[1:])!r}")
        entry["url"] = words[0]
    elif "://" in words[0]:
        scheme = words[0].partition(":")[0]
        raise UsageError(f"an MCP server answers at http:// or https://, not at {scheme}://: {words[0]!r}")
    else:
        entry |= {"command": words[0], "args": words[1:]}
    if options.transport:
        entry["transport"] = options.transport
    if options.env:
        entry["env"] = dict(_pair(text, "=", "--env NAME=VALUE") for text in options.env)
    if options.header:
        entry["headers"] = dict(_pair(text, ":", "--header 'NAME: VALUE'") for text in options.header)
    if options.disclosure:
        entry["disclosure"] = options.disclosure
    return entry


def _add(options: argparse.Namespace, console: Console) -> int:
    place = place_of(options)
    console.say(add_server(options.name, options.entry, place, project=options.project, force=options.force))
    program = options.entry.get("command")
    if program and "$" not in program and shutil.which(program) is None:
        console.say(
            f"note: there is no program {program!r} here now; if it was meant as a part of the name, take the server out again: "
            f"mainspring mcp remove {options.name}"
        )
    return DONE


def _pair(text: str, mark: str, usage: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise UsageError(f"{text!r} must be {usage}")
    return name.strip(), value.strip() if mark == ":" else value


def _remove(options: argparse.Namespace, console: Console) -> int:
    console.say(remove_server(options.name, place_of(options), project=options.project))
    return DONE


def _login(options: argparse.Namespace, console: Console) -> int:
    def show(url: str) -> None:
        console.say(f"log in here, if no browser opens:\n{url}")

    console.say(asyncio.run(log_in(options.name, place_of(options), show, browser=not options.no_browser)))
    return DONE


def _logout(options: argparse.Namespace, console: Console) -> int:
    console.say(asyncio.run(log_out(options.name, place_of(options))))
    return DONE
