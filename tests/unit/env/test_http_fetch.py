"""Addresses that `fetch` may connect to: the registries of special-purpose addresses, row by row."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from mainspring.env.http_fetch import FetchError, HttpFetcher, is_public
from tests.rows import each_row

IPV4 = {
    '"This network"': "0.0.0.0/8",
    '"This host on this network"': "0.0.0.0/32",
    "Private-Use A": "10.0.0.0/8",
    "Shared Address Space": "100.64.0.0/10",
    "Loopback": "127.0.0.0/8",
    "Link Local": "169.254.0.0/16",
    "Private-Use B": "172.16.0.0/12",
    "IETF Protocol Assignments": "192.0.0.0/24",
    "IPv4 Service Continuity Prefix": "192.0.0.0/29",
    "IPv4 dummy address": "192.0.0.8/32",
    "Port Control Protocol Anycast": "192.0.0.9/32",
    "Traversal Using Relays around NAT Anycast": "192.0.0.10/32",
    "NAT64/DNS64 Discovery": "192.0.0.170/31",
    "Documentation (TEST-NET-1)": "192.0.2.0/24",
    "AS112-v4": "192.31.196.0/24",
    "AMT": "192.52.193.0/24",
    "Deprecated (6to4 Relay Anycast)": "192.88.99.0/24",
    "6a44-relay anycast address": "192.88.99.2/32",
    "Private-Use C": "192.168.0.0/16",
    "Direct Delegation AS112 Service": "192.175.48.0/24",
    "Benchmarking": "198.18.0.0/15",
    "Documentation (TEST-NET-2)": "198.51.100.0/24",
    "Documentation (TEST-NET-3)": "203.0.113.0/24",
    "Multicast": "224.0.0.0/4",
    "Reserved": "240.0.0.0/4",
    "Limited Broadcast": "255.255.255.255/32",
}
IPV6 = {
    "Loopback Address": "::1/128",
    "Unspecified Address": "::/128",
    "IPv4-compatible": "::/96",
    "IPv4-translated": "::ffff:0:0:0/96",
    "IPv4-IPv6 Translat. (local use)": "64:ff9b:1::/48",
    "Discard-Only Address Block": "100::/64",
    "Dummy IPv6 Prefix": "100:0:0:1::/64",
    "IETF Protocol Assignments": "2001::/23",
    "TEREDO": "2001::/32",
    "Port Control Protocol Anycast": "2001:1::1/128",
    "Traversal Using Relays around NAT Anycast": "2001:1::2/128",
    "DNS-SD Service Registration Protocol Anycast": "2001:1::3/128",
    "Benchmarking": "2001:2::/48",
    "AMT": "2001:3::/32",
    "AS112-v6": "2001:4:112::/48",
    "Deprecated (previously ORCHID)": "2001:10::/28",
    "ORCHIDv2": "2001:20::/28",
    "Drone Remote ID Protocol Entity Tags": "2001:30::/28",
    "Documentation": "2001:db8::/32",
    "6to4": "2002::/16",
    "Direct Delegation AS112 Service": "2620:4f:8000::/48",
    "Documentation (2024)": "3fff::/20",
    "Segment Routing (SRv6) SIDs": "5f00::/16",
    "Unique-Local": "fc00::/7",
    "Link-Local Unicast": "fe80::/10",
    "Site-Local Unicast": "fec0::/10",
    "Multicast": "ff00::/8",
    "Unassigned below unicast": "4000::/2",
    "Unassigned above unicast": "8000::/2",
}
ROWS = [*IPV4.items(), *IPV6.items()]
PRIVATE = ("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1", "192.0.0.8", "0.0.0.0", "224.0.0.1")
PUBLIC = ("8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "9.255.255.255",
          "11.0.0.0", "126.0.0.1", "128.0.0.1", "169.253.0.1", "192.0.1.0", "192.167.0.1", "198.17.0.1", "198.20.0.1",
          "223.255.255.255", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::1", "2400:cb00::1",
          "2001:200::1", "2001:db7::1", "2001:db9::1", "2003::1", "2620:4f:8001::1", "3fff:1000::1")  # fmt: skip


def _embed_ipv4(ipv4: str) -> list[str]:
    """Return IPv6 addresses that contain an IPv4 address."""
    number = int(ip_address(ipv4))
    inside = [
        int(ip_address(start)) | number for start in ("::ffff:0:0", "64:ff9b::", "2606::5efe:0:0", "2606::200:5efe:0:0")
    ]
    return [str(ip_address(n)) for n in inside] + [f"::ffff:{ipv4}"]


@each_row("name, block", ROWS)
def test_special_purpose_addresses_are_not_public(name: str, block: str) -> None:
    network = ip_network(block)
    size = network.num_addresses
    for at in {0, 1 % size, size // 3, size // 2, size - 1}:
        assert not is_public(str(network[at])), name


@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_inside_an_ipv6_address_is_found(address: str) -> None:
    for text in _embed_ipv4(address):
        assert not is_public(text), text


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)
    if ":" not in address:
        assert is_public(f"::ffff:{address}")
        assert is_public(str(ip_address(int(ip_address("64:ff9b::")) | int(ip_address(address)))))


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "fe80::1%eth0", "2606:4700::1111%1", "8.8.8.8%1", "010.0.0.1", "0x7f.0.0.1", "127.1", "2130706433",
     "1.2.3", "1.2.3.4.5", "256.1.1.1", "[::1]", "::1/128", " 8.8.8.8", "8.8.8.8\n", "::g"],
)  # fmt: skip
def test_invalid_address_is_not_public(text: str) -> None:
    assert not is_public(text)


@given(st.ip_addresses())
def test_public_addresses_are_also_public_for_ipaddress(address: object) -> None:
    if is_public(str(address)):
        address_of_python = ip_address(str(address))
        assert not (address_of_python.is_private)
        assert not (address_of_python.is_loopback)
        assert not (address_of_python.is_link_local)
        assert not (address_of_python.is_multicast)


@pytest.mark.parametrize(
    "host",
    ["0x7f.1", "0x7f000001", "017700000001", "2130706433", "127.1", "127.0.1", "0177.0.0.1", "0x0a.0.0.1", "127.0.0.1.",
     "１２７.0.0.1", "[fec0::1]", "[64:ff9b:1:c12:e451:e2c1:8000:0]", "192.0.0.8", "[::ffff:127.0.0.1]",
     "[64:ff9b::7f00:1]", "[fe80::1%25lo]", "[::]", "0"],
)  # fmt: skip
@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:9"])
async def test_every_spelling_of_a_private_host_is_rejected(
    host: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(FetchError, match="private|no address"):
        await HttpFetcher().get(f"http://{host}/", timeout=120, max_bytes=100)


@pytest.mark.parametrize("host", ["0x7f.1", "127.1", "2130706433", "017700000001", "x.0x1"])
async def test_numeric_host_that_cannot_be_resolved_is_not_sent_to_a_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    def fail_to_resolve(host: str, port: int) -> list[str]:
        raise OSError("unknown")

    with pytest.raises(FetchError, match="no address"):
        await HttpFetcher(resolve=fail_to_resolve).get(f"http://{host}/", timeout=120, max_bytes=100)
