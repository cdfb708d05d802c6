"""Which network addresses are of the public internet. All others are private, of this machine, of its network, or reserved.

The tables are those of the IANA registries of special-purpose addresses (RFC 6890), as of 2025, with multicast and reserved
ranges. Those of Python differ from version to version.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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
"""All that is assigned for use in the public internet; everything outside of it is special or reserved."""
_SPECIAL_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, drone remote identification
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # a test network of the past
        "3fff::/20",  # documentation
    )
)
_CARRIERS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Addresses that are only another form of the IPv4 address at their end: mapped ones, and those of NAT64."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_public(text: str) -> bool:
    """Returns True if an address, as the system resolved it, is one of the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    if address.scope_id is not None:  # it is one of a link
        return False
    carried = IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in network for network in _CARRIERS):
        return is_public(str(carried))
    return _is_public_unicast(address) and (not _is_tunnel(address) or is_public(str(carried)))


def _is_public_unicast(address: IPv6Address) -> bool:
    return address in _UNICAST and not any(address in network for network in _SPECIAL_IPV6)


def _is_tunnel(address: IPv6Address) -> bool:
    """Returns True if the address is one of ISATAP, which leads to the IPv4 address at its end."""
    return int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
