"""Send HTTP requests, and decide which network addresses are of the public internet.

All other addresses are private, of this machine, of its network, or reserved. The tables are those of the IANA registries of
special-purpose addresses (RFC 6890), as of 2025, with multicast and reserved ranges. Python's own tables differ between versions.

The address of a host is resolved once, checked, and then connected to; redirects are not followed, cookies are not stored.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import time
import zlib
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from mainspring.env.types import HttpResponse
from mainspring.lazy import lazy_re

if TYPE_CHECKING:
    import http.client


_SPECIAL_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space of carriers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, cloud metadata
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, limited broadcast
    )
)
_UNICAST = IPv6Network("2000::/3")
"""All ranges that are assigned for the public internet; everything outside them is special or reserved."""
_SPECIAL_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, drone remote identification
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # a former test network
        "3fff::/20",  # documentation
    )
)
_CARRIERS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Addresses that contain an IPv4 address at their end: mapped ones, and those of NAT64."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_public(text: str) -> bool:
    """Return True if an address, as the system resolved it, is one of the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    if address.scope_id is not None:  # a link-local address with its interface
        return False
    carried = IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in network for network in _CARRIERS):
        return is_public(str(carried))
    return _is_public_unicast(address) and (not _is_tunnel(address) or is_public(str(carried)))


def _is_public_unicast(address: IPv6Address) -> bool:
    return address in _UNICAST and not any(address in network for network in _SPECIAL_IPV6)


def _is_tunnel(address: IPv6Address) -> bool:
    """Return True if the address is an ISATAP address, which leads to the IPv4 address at its end."""
    return int(address) >> 32 & 0xFFFF_FFFF in _ISATAP


_PORTS = {"http": 80, "https": 443}
_PIECE = 1 << 16
_USER_AGENT = "mainspring"
_LOCAL_NAMES = ("localhost", ".local", ".internal", ".lan", ".home.arpa")


_NUMBER = lazy_re(r"[0-9]+|0[xX][0-9a-fA-F]*")
"""The end of a host that some systems parse as an IPv4 address."""


HostResolver = Callable[[str, int], Sequence[str]]
"""Function that resolves the addresses of a host; blocking."""


class FetchError(OSError):
    """A page cannot be fetched; the message contains the reason."""


class PrivateAddressError(FetchError):
    """The host has an address that is not on the public internet."""


class HttpFetcher:
    """HTTP client of an environment.

    Args:
        reachable: Hosts, as ``name`` or ``name:port``, that may have a private address.
        resolve: Function that resolves addresses (default: the system's resolver).
    """

    def __init__(self, reachable: Sequence[str] = (), resolve: HostResolver | None = None) -> None:
        self._reachable = frozenset(host.lower() for host in reachable)
        self._resolve = resolve or _addresses

    async def get(self, url: str, *, timeout: float, max_bytes: int, accept: str = "*/*") -> HttpResponse:
        """Fetch one URL.

        Args:
            url: An ``http`` or ``https`` URL.
            timeout: Maximum seconds for the whole request.
            max_bytes: Maximum bytes of the body; a longer body is truncated.
            accept: The accepted content types.

        Raises:
            FetchError: If the URL is invalid, its host is unreachable or not allowed, or the response does not arrive.
            TimeoutError: If the request times out.
        """
        exchange = _HttpRequest(self, _parse_url(url), time.monotonic() + timeout, max_bytes, accept)
        work = asyncio.ensure_future(asyncio.to_thread(exchange.run))
        try:
            return await asyncio.wait_for(asyncio.shield(work), timeout)
        except (TimeoutError, asyncio.CancelledError):
            exchange.abort()  # unblocks the thread
            with contextlib.suppress(Exception):
                await asyncio.wait_for(work, 1.0)
            raise

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses to connect to. Blocking.

        Raises:
            FetchError: If the host has no address, or a private one.
        """
        try:
            found = list(dict.fromkeys(self._resolve(host, port)))
        except (OSError, UnicodeError) as e:
            raise FetchError(f"the host {host} has no address ({e})") from None
        if not found:
            raise FetchError(f"the host {host} has no address")
        if not self.is_allowed_host(host, port):
            private = [a for a in found if not is_public(a)]
            if private:
                raise PrivateAddressError(
                    f"{host} has the address {private[0]}, which is private, of this machine or of its network; such are "
                    "not fetched. A program in the shell may, if it is allowed to"
                )
        return found

    def is_allowed_host(self, host: str, port: int) -> bool:
        """Return True if a host is configured as one that may have a private address."""
        return host in self._reachable or f"{host}:{port}" in self._reachable


def _parse_url(url: str) -> SplitResult:
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError as e:
        raise FetchError(f"it is not a valid URL: {e}") from None
    if split.scheme.lower() not in _PORTS:
        raise FetchError(f"only http and https URLs are fetched, not {split.scheme or 'one without a scheme'}")
    if split.username is not None or split.password is not None:
        raise FetchError("a user name or password in a URL is not sent")
    if not split.hostname or any(c <= " " or c == "\x7f" for c in url) or port == 0:
        raise FetchError("the URL has no host, or invalid characters")
    return split


def _addresses(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class _HttpRequest:
    """One request, in a thread."""

    def __init__(self, web: HttpFetcher, url: SplitResult, end: float, max_bytes: int, accept: str) -> None:
        self._web = web
        self._url = url
        self._end = end
        self._max = max_bytes
        self._accept = accept
        self._socket: socket.socket | None = None
        self._aborted = False
        self._host = (url.hostname or "").rstrip(".")
        self._port = url.port or _PORTS[url.scheme.lower()]
        self._secure = url.scheme.lower() == "https"

    def abort(self) -> None:
        """Abort the request, from another thread."""
        self._aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> HttpResponse:
        """Return the response; blocking."""
        import http.client
        import ssl

        try:
            return self._run()
        except (FetchError, TimeoutError):
            raise
        except UnicodeError as e:
            raise FetchError(f"the host is not a valid name: {e}") from None
        except ssl.SSLCertVerificationError as e:
            raise FetchError(f"the certificate of {self._host} cannot be trusted: {e.verify_message}") from None
        except (OSError, http.client.HTTPException) as e:
            raise FetchError(f"{self._host} sent an invalid response: {str(e) or type(e).__name__}") from None

    def _run(self) -> HttpResponse:
        from urllib.request import getproxies, proxy_bypass

        host = self._host if self._host.isascii() else self._host.encode("idna").decode("ascii")
        proxy = None if proxy_bypass(f"{host}:{self._port}") else getproxies().get(self._url.scheme.lower())
        target = urlunsplit(("", "", self._url.path or "/", self._url.query, ""))
        target = _quoted(target)
        headers = {"User-Agent": _USER_AGENT, "Accept": self._accept, "Accept-Encoding": "gzip", "Connection": "close"}
        if proxy:
            connection, target = self._connect_via_proxy(proxy, host, target, headers)
        else:
            connection = self._connect(host)
        try:
            connection.request("GET", target, headers=headers)
            if connection.sock is not None:
                connection.sock.settimeout(self._remaining_time())
            with connection.getresponse() as response:  # a closing connection belongs to its response
                return self._answer(response)
        finally:
            connection.close()

    def _connect(self, host: str) -> http.client.HTTPConnection:
        failed: OSError | None = None
        for address in self._web.addresses(host, self._port):
            try:
                raw = socket.create_connection((address, self._port), timeout=self._remaining_time())
            except OSError as e:
                failed = e
                continue
            return self._wrap_socket(raw, host)
        raise FetchError(f"{host} cannot be reached: {failed}")

    def _wrap_socket(self, raw: socket.socket, host: str) -> http.client.HTTPConnection:
        import http.client
        import ssl

        self._socket = raw
        if self._aborted:
            raw.close()
            raise TimeoutError
        connection = http.client.HTTPConnection(host, self._port)
        if self._secure:
            connection = http.client.HTTPSConnection(host, self._port)
            raw = self._socket = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
        connection.sock = raw
        return connection

    def _connect_via_proxy(
        self, proxy: str, host: str, target: str, headers: dict[str, str]
    ) -> tuple[http.client.HTTPConnection, str]:
        """Connect through a proxy, which resolves the host itself: known private addresses are rejected all the same."""
        import http.client

        try:
            self._web.addresses(host, self._port)
        except PrivateAddressError:
            raise
        except FetchError:
            if ":" in host or host.endswith(_LOCAL_NAMES) or _NUMBER.fullmatch(host.rpartition(".")[2]):
                raise
        at = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        login: dict[str, str] = {}
        if at.username:
            pair = f"{unquote(at.username)}:{unquote(at.password or '')}".encode()
            login["Proxy-Authorization"] = "Basic " + base64.b64encode(pair).decode()
        where = (at.hostname or "", at.port or _PORTS.get(at.scheme, 80))
        if self._secure:
            connection = http.client.HTTPSConnection(*where, timeout=self._remaining_time())
            connection.set_tunnel(host, self._port, headers=login)
            connection.connect()
            self._socket = connection.sock
            return connection, target
        headers.update(login)
        connection = http.client.HTTPConnection(*where, timeout=self._remaining_time())
        connection.connect()
        self._socket = connection.sock
        name = f"[{host}]" if ":" in host else host
        headers["Host"] = name if self._port == _PORTS["http"] else f"{name}:{self._port}"
        return connection, f"http://{headers['Host']}{target}"

    def _answer(self, response: http.client.HTTPResponse) -> HttpResponse:
        headers = {name.lower(): value for name, value in response.getheaders()}
        unzip = zlib.decompressobj(31) if headers.get("content-encoding", "").lower() == "gzip" else None
        body = bytearray()
        while len(body) <= self._max:
            self._remaining_time()
            piece = response.read1(_PIECE)
            if not piece:
                break
            remaining = self._max + 1 - len(body)
            try:
                body += unzip.decompress(piece, remaining) if unzip else piece[:remaining]
            except zlib.error as e:
                raise FetchError(f"the response is damaged: {e}") from None
        cut = len(body) > self._max
        return HttpResponse(urlunsplit(self._url), response.status, headers, bytes(body[: self._max]), cut)

    def _remaining_time(self) -> float:
        remaining = self._end - time.monotonic()
        if remaining <= 0 or self._aborted:
            raise TimeoutError
        return remaining


def _quoted(target: str) -> str:
    return "".join([c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in target])
