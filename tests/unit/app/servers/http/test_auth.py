"""Access control: tokens, tenants, hosts, origins, and limits."""

import json
import logging
from pathlib import Path

import pytest

from mainspring.app.run_service.service import ServiceOptions
from mainspring.app.servers.http.auth import (
    TOKEN_VARIABLE,
    OriginPolicy,
    RateLimiter,
    TenantTokens,
    new_token,
    pop_token_from_env,
    read_tokens,
)
from mainspring.app.servers.http.state import Limits
from mainspring.errors import ConfigError
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import ANN, BEN, Client, Gate, run_server, script_agent

OPEN = ("", "health", "ready", "openapi.json", "page/page.js")
CLOSED = ("v1/agents", "v1/runs", "v1/runs/ann.x", "v1/runs/ann.x/events", "v1/runs/ann.x/result", "metrics")


async def test_private_paths_need_a_token():
    async with run_server({"bot": script_agent("a")}) as server:
        for path in OPEN:
            assert (await server.anonymous.get(path))[0] == 200, path
        for token in ("", "x", ANN[:-1], ANN + "x", f"{ANN} {BEN}"):
            for path in CLOSED:
                status, rejected = await Client(server.url, server.session, token).get(path)
                assert (status, rejected["code"]) == (401, "unauthorized"), path
            assert (await Client(server.url, server.session, token).post("v1/runs", {"prompt": "x"}))[0] == 401
        basic = await server.anonymous.get("v1/runs", authorization=f"Basic {ANN}")
        query = await server.anonymous.get(f"v1/runs?token={ANN}")
        assert (basic[0], query[0]) == (401, 401)
        assert (await server.anonymous.get("v1/nothing"))[0] == 401
        assert (await server.ann.get("v1/nothing"))[0] == 404


async def test_run_of_another_tenant_is_not_found():
    asking = [Reply(calls=[ScriptedCall("note", {"text": "x"})]), "over"]
    async with run_server({"bot": script_agent(*asking)}) as server:
        run = await server.ann.start("the secret of ann")
        call = (await server.ann.wait_for_state(run, "paused"))["waiting"][0]["call_id"]
        unknown = await server.ben.get("v1/runs/ben.nothing")
        request = [
            await server.ben.get(f"v1/runs/{run}"),
            await server.ben.get(f"v1/runs/{run}/events"),
            await server.ben.get(f"v1/runs/{run}/events?format=ag-ui"),
            await server.ben.get(f"v1/runs/{run}/events", last_event_id="1"),
            await server.ben.get(f"v1/runs/{run}/result?wait=1"),
            await server.ben.post(f"v1/runs/{run}/steer", {"text": "x"}),
            await server.ben.post(f"v1/runs/{run}/follow-up", {"text": "x"}),
            await server.ben.post(f"v1/runs/{run}/approve", {"call_id": call}),
            await server.ben.post(f"v1/runs/{run}/deny", {"call_id": call}),
            await server.ben.post(f"v1/runs/{run}/abort", {}),
            await server.ben.post(f"v1/runs/{run}/fork", {"prompt": "what did ann say?"}),
        ]
        assert request == [unknown] * len(request)
        assert unknown == (404, {"code": "unknown_run", "message": "Run not found."})
        assert (await server.ben.get("v1/runs"))[1] == {"runs": []}
        assert (await server.ann.wait_for_state(run, "paused"))["waiting"]
        assert "ann" not in (await server.ben.get("metrics"))[1]


@pytest.mark.parametrize(
    "run", ["ann.x%00", "ann.", ".x", "ann", "ann.x.spawn-1", "ann.%2e%2e", "x" * 500, "ANN.x", "%F0%9F"]
)
async def test_unusual_run_id_is_not_found(run: str):
    async with run_server({"bot": script_agent("a")}) as server:
        assert (await server.ann.get(f"v1/runs/{run}"))[0] == 404


def test_token_file_is_validated(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"Invalid tenant name: 'ann\.x'"):
        TenantTokens({"0123456789abcdef": "ann.x"})
    with pytest.raises(ConfigError, match="at least 16"):
        TenantTokens({"short": "ann"})
    file = tmp_path / "tokens"
    file.write_text(f"# ours\n{ANN}\nben {BEN}\n\n")
    tokens = TenantTokens(read_tokens(file))
    assert [tokens.tenant(t) for t in (ANN, BEN, "", ANN + "x", "\ud800")] == ["default", "ben", None, None, None]
    assert ANN not in repr(tokens)
    for text, reason in (("", "no token"), (f"a b {ANN}", "line 1"), (f"{ANN}\nben {ANN}", "duplicate")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=reason):
            read_tokens(file)
    with pytest.raises(ConfigError, match="No such file"):
        read_tokens(tmp_path / "none")


def test_token_variable_is_removed_from_the_environment():
    environ = {TOKEN_VARIABLE: ANN, "HOME": "/"}
    assert pop_token_from_env(environ) == ANN
    assert environ == {"HOME": "/"}
    assert len(new_token()) > 40
    assert new_token() != new_token()


async def test_foreign_hosts_and_origins_are_rejected():
    doors = OriginPolicy(hosts=("agents.example.org",), origins=("https://app.example.org",))
    async with run_server({"bot": script_agent("a")}, doors=doors) as server:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "a@b", ""):
            for path in ("v1/runs", "health", ""):
                status, rejected = await server.ann.get(path, host=host)
                assert status == 403 or (host == "" and status == 400), host
        for host in ("agents.example.org", "localhost:9", "127.0.0.1", "[::1]:80", "10.1.2.3:80"):
            assert (await server.ann.get("v1/runs", host=host))[0] == 200, host
        allowed_origin = server.url.rstrip("/")
        for origin in (
            "https://evil.example",
            "null",
            allowed_origin + "1",
            "http://localhost",
            "https://app.example.org.evil",
            "http://[x",
        ):
            status, rejected = await server.ann.get("v1/runs", origin=origin)
            assert (status, rejected["code"]) == (403, "foreign_origin"), origin
        assert (await server.ann.get("v1/runs", origin=allowed_origin))[0] == 200
        async with server.session.get(
            server.url + "v1/runs", headers={"origin": allowed_origin, "authorization": f"Bearer {ANN}"}
        ) as a:
            assert "access-control-allow-origin" not in a.headers
        given = {"origin": "https://app.example.org"}
        async with server.session.options(server.url + "v1/runs", headers=given) as a:
            assert (a.status, a.headers["access-control-allow-origin"]) == (204, "https://app.example.org")
            assert "authorization" in a.headers["access-control-allow-headers"]
        async with server.session.get(server.url + "v1/runs", headers=given) as a:
            assert (a.status, a.headers["access-control-allow-origin"]) == (401, "https://app.example.org")


async def test_limits_apply_per_tenant():
    gate = Gate()
    options, limits = ServiceOptions(runs=2), Limits(requests=30, followers=1, body=2_000)
    async with run_server({"bot": script_agent(gate)}, options=options, limits=limits) as server:
        await server.ann.start()
        run = await server.ann.start()
        status, rejected = await server.ann.post("v1/runs", {"prompt": "x"})
        assert (status, rejected["code"]) == (429, "too_many_runs")
        await server.ben.start()
        events = server.ann.follow(run)
        await anext(events)
        async with server.session.get(
            f"{server.url}v1/runs/{run}/events", headers={"authorization": f"Bearer {ANN}"}
        ) as a:
            assert (a.status, (await a.json())["code"]) == (429, "too_many_followers")
            assert int(a.headers["retry-after"]) > 0
        await events.aclose()
        status, rejected = await server.ann.post("v1/runs", {"prompt": "x" * 3_000})
        assert (status, rejected["code"]) == (413, "too_large")

        async def pieces():
            for _ in range(100):
                yield b" " * 100

        headers = {"authorization": f"Bearer {ANN}", "content-type": "application/json"}
        async with server.session.post(f"{server.url}v1/runs", data=pieces(), headers=headers) as a:
            assert a.status == 413
        while (await server.ann.get("v1/agents"))[0] == 200:
            pass
        async with server.session.get(f"{server.url}v1/agents", headers=headers) as a:
            assert (a.status, (await a.json())["code"]) == (429, "too_many_requests")
            assert 1 <= int(a.headers["retry-after"]) <= 3
        assert (await server.ben.get("v1/agents"))[0] == 200
        assert (await server.anonymous.get("health"))[0] == 200
        gate.open.set()


def test_rate_limit_refills_over_time():
    now = [0.0]
    rate = RateLimiter(60, lambda: now[0])
    assert [rate.acquire("a") for _ in range(61)] == [0] * 60 + [1]
    assert rate.acquire("b") == 0
    now[0] = 0.5
    assert rate.acquire("a") == 1
    now[0] = 1.5
    assert [rate.acquire("a"), rate.acquire("a")] == [0, 1]
    now[0] = 1e9
    assert [rate.acquire("a") for _ in range(61)][-2:] == [0, 1]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"prompt": ""}', "application/json", 422),
        (b'{"prompt": 1}', "application/json", 422),
        (b'{"prompt": "x", "promt": "y"}', "application/json", 422),
        (b'{"prompt": "x", "key": "../x"}', "application/json", 422),
        (b'{"prompt": "x", "agent": "other"}', "application/json", 404),
        (b'{"prompt": "x"}', "text/plain", 415),
        (b"prompt=x", "application/x-www-form-urlencoded", 415),
        (b'{"prompt": "x"}', "application/json; charset=utf-8", 201),
        (b"[" * 100_000, "application/json", 400),
    ],
)
async def test_invalid_bodies_are_rejected_and_start_nothing(body: bytes, kind: str, status: int):
    async with run_server({"bot": script_agent("a")}) as server:
        headers = {"authorization": f"Bearer {ANN}", "content-type": kind}
        async with server.session.post(server.url + "v1/runs", data=body, headers=headers) as answer:
            reply = json.loads(await answer.read())
            assert (answer.status, status == 201) == (status, "id" in reply), reply
        assert len((await server.ann.get("v1/runs"))[1]["runs"]) == (status == 201)


async def test_invalid_queries_and_methods_are_rejected():
    async with run_server({"bot": script_agent("a")}) as server:
        run = await server.ann.start()
        for query in (
            "limit=0",
            "limit=x",
            "limit=501",
            "state=odd",
            "limt=5",
            "limit=1&limit=2",
            "state=null",
            "state=NULL",
        ):
            assert (await server.ann.get(f"v1/runs?{query}"))[0] == 422, query
        for query in ("after=-1", "after=x", "format=xml", f"after={'9' * 30}"):
            assert (await server.ann.get(f"v1/runs/{run}/events?{query}"))[0] == 422, query
        assert (await server.ann.get(f"v1/runs/{run}/events", last_event_id="x"))[0] == 422
        async with server.session.delete(server.url + "v1/runs", headers={"authorization": f"Bearer {ANN}"}) as answer:
            assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
            assert (await answer.json())["code"] == "not_allowed"


async def test_tokens_are_not_logged(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]):
    caplog.set_level(logging.DEBUG)
    async with run_server({"bot": script_agent("a")}) as server:
        await server.ann.wait_for_result(await server.ann.start())
        await Client(server.url, server.session, "wrong-0123456789abcdef").get("v1/runs")
        figures = (await server.ann.get("metrics"))[1]
    out = capsys.readouterr()
    for text in (caplog.text, out.out, out.err, figures):
        assert ANN not in text
        assert "wrong-0123" not in text
    assert out.out == ""
