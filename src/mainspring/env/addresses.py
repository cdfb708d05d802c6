"""Which network addresses are nobody else's: private, of this machine, of the link, of cloud metadata."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, whatever form it is written in."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(a.is_global and not a.is_multicast and not a.is_reserved for a in _forms(address))


def _forms(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address and those that it carries inside."""
    if isinstance(address, IPv4Address):
        return [address]
    inside: list[IPv4Address | IPv6Address] = []
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        inside.append(address.sixtofour)
    if address.teredo is not None:
        inside += address.teredo
    if any(address in network for network in _NAT64):
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    return [address, *inside]
