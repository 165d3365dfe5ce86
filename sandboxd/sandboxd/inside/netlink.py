"""What a network namespace needs from netlink: a local route, a redirect of two ports, and the list of its routes.

Plain sockets and `struct`, because this also runs where there is nothing but the standard library. Numbers are those of
linux/netlink.h, linux/rtnetlink.h and linux/netfilter/nf_tables.h. Each function opens its own socket, so that it acts
on the namespace of the calling thread.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence

ANSWER_SECONDS = 5.0

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12

NLM_F_REQUEST, NLM_F_ACK = 0x1, 0x4
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
NLM_F_DUMP = 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLA_F_NESTED = 0x8000

RTM_NEWROUTE, RTM_GETROUTE = 24, 26
RT_TABLE_LOCAL, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL = 255, 4, 254, 2
RTA_DST, RTA_OIF = 1, 4
# Routes that lead nowhere: blackhole, unreachable, prohibit.
RTN_NOWHERE = (6, 7, 8)

NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_NFTABLES = 16, 17, 10
NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE = 0, 2, 3, 6
NFPROTO_IPV4 = 2
NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST = 3, -100
NFT_REG_1 = 1
NFT_META_L4PROTO = 16
NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER = 1, 2
NFT_CMP_EQ = 0
# Where the destination stands in an IPv4 header (RFC 791) and in a TCP header (RFC 9293).
DESTINATION_ADDRESS, DESTINATION_PORT = 16, 2

TABLE, CHAIN = b"sandboxd\0", b"output\0"


def add_local_route(address: bytes, prefix_length: int) -> None:
    """Make every address of an IPv4 network local: whoever connects to one of them reaches this namespace itself.

    Raises OSError as the kernel answers.
    """
    header = struct.pack(
        "=BBBBBBBBI",
        socket.AF_INET,
        prefix_length,
        0,  # source prefix
        0,  # type of service
        RT_TABLE_LOCAL,
        RTPROT_STATIC,
        RT_SCOPE_HOST,
        RTN_LOCAL,
        0,  # flags
    )
    loopback = struct.pack("=I", socket.if_nametoindex("lo"))
    body = header + _attribute(RTA_DST, address) + _attribute(RTA_OIF, loopback)
    _exchange(NETLINK_ROUTE, [(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, body)])


def route_interfaces() -> list[int]:
    """The interface of each route of every table, IPv4 and IPv6; 0 for one that has none. Raises OSError."""
    found: list[int] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as conversation:
        conversation.settimeout(ANSWER_SECONDS)
        header = struct.pack("=IHHII", 16 + 12, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
        conversation.send(header + bytes(12))
        while True:
            for kind, body, _ in _answers(conversation.recv(1 << 16)):
                if kind == NLMSG_DONE:
                    return found
                _refuse_error(kind, body)
                if kind == RTM_NEWROUTE and body[7] not in RTN_NOWHERE:
                    found.append(_interface(body[12:]))


def _interface(attributes: bytes) -> int:
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == RTA_OIF:
            (interface,) = struct.unpack_from("=I", attributes, 4)
            return int(interface)
        attributes = attributes[max((length + 3) & ~3, 4) :]
    return 0


def redirect(address: bytes, prefix_length: int, ports: Mapping[int, int]) -> None:
    """Send TCP connections from here to a port of an IPv4 network to another port of 127.0.0.1 instead.

    All or nothing: the kernel takes the batch as one. Raises OSError as the kernel answers.
    """
    hook = _attribute(1, _be32(NF_INET_LOCAL_OUT)) + _attribute(2, struct.pack("!i", NF_IP_PRI_NAT_DST))
    chain = (
        _attribute(1, TABLE)
        + _attribute(3, CHAIN)
        + _attribute(4 | NLA_F_NESTED, hook)
        + _attribute(7, b"nat\0")  # the type of chain
    )
    messages = [_nft(NFT_MSG_NEWTABLE, _attribute(1, TABLE)), _nft(NFT_MSG_NEWCHAIN, chain)]
    for port, instead in ports.items():
        messages.append(_nft(NFT_MSG_NEWRULE, _redirect_rule(address, prefix_length, port, instead)))
    _exchange(NETLINK_NETFILTER, _batch(messages))


def remove_redirect() -> None:
    """Take `redirect` back. Raises OSError as the kernel answers."""
    _exchange(NETLINK_NETFILTER, _batch([_nft(NFT_MSG_DELTABLE, _attribute(1, TABLE))]))


def _redirect_rule(address: bytes, prefix_length: int, port: int, instead: int) -> bytes:
    mask = (0xFFFFFFFF << (32 - prefix_length)) & 0xFFFFFFFF
    expressions = (
        _expression(b"meta", _attribute(1, _be32(NFT_REG_1)) + _attribute(2, _be32(NFT_META_L4PROTO))),
        _equals(bytes([socket.IPPROTO_TCP])),
        _load(NFT_PAYLOAD_NETWORK_HEADER, DESTINATION_ADDRESS, 4),
        _expression(
            b"bitwise",
            _attribute(1, _be32(NFT_REG_1))
            + _attribute(2, _be32(NFT_REG_1))
            + _attribute(3, _be32(4))
            + _attribute(4 | NLA_F_NESTED, _attribute(1, _be32(mask)))
            + _attribute(5 | NLA_F_NESTED, _attribute(1, _be32(0))),
        ),
        _equals(address),
        _load(NFT_PAYLOAD_TRANSPORT_HEADER, DESTINATION_PORT, 2),
        _equals(struct.pack("!H", port)),
        _expression(
            b"immediate",
            _attribute(1, _be32(NFT_REG_1)) + _attribute(2 | NLA_F_NESTED, _attribute(1, struct.pack("!H", instead))),
        ),
        _expression(b"redir", _attribute(1, _be32(NFT_REG_1))),
    )
    listed = b"".join(_attribute(1 | NLA_F_NESTED, expression) for expression in expressions)
    return _attribute(1, TABLE) + _attribute(2, CHAIN) + _attribute(4 | NLA_F_NESTED, listed)


def _expression(name: bytes, data: bytes) -> bytes:
    return _attribute(1, name + b"\0") + _attribute(2 | NLA_F_NESTED, data)


def _equals(value: bytes) -> bytes:
    data = _attribute(3 | NLA_F_NESTED, _attribute(1, value))
    return _expression(b"cmp", _attribute(1, _be32(NFT_REG_1)) + _attribute(2, _be32(NFT_CMP_EQ)) + data)


def _load(base: int, offset: int, length: int) -> bytes:
    numbers = (NFT_REG_1, base, offset, length)
    return _expression(b"payload", b"".join(_attribute(i, _be32(n)) for i, n in enumerate(numbers, 1)))


Message = tuple[int, int, bytes]


def _nft(kind: int, attributes: bytes) -> Message:
    header = struct.pack("!BBH", NFPROTO_IPV4, 0, 0)
    return (NFNL_SUBSYS_NFTABLES << 8) | kind, NLM_F_CREATE | NLM_F_ACK, header + attributes


def _batch(messages: Sequence[Message]) -> list[Message]:
    edge = struct.pack("!BBH", 0, 0, NFNL_SUBSYS_NFTABLES)
    return [(NFNL_MSG_BATCH_BEGIN, 0, edge), *messages, (NFNL_MSG_BATCH_END, 0, edge)]


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _be32(value: int) -> bytes:
    return struct.pack("!I", value)


def _exchange(protocol: int, messages: Sequence[Message]) -> None:
    """Send the messages as one datagram and wait for every answer that was asked for."""
    waiting = set()
    datagram = b""
    for sequence, (kind, flags, body) in enumerate(messages, 1):
        datagram += struct.pack("=IHHII", 16 + len(body), kind, flags | NLM_F_REQUEST, sequence, 0) + body
        datagram += b"\0" * (-len(body) % 4)
        if flags & NLM_F_ACK:
            waiting.add(sequence)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as conversation:
        conversation.settimeout(ANSWER_SECONDS)
        conversation.bind((0, 0))
        conversation.send(datagram)
        while waiting:
            for kind, body, sequence in _answers(conversation.recv(1 << 16)):
                _refuse_error(kind, body)
                if kind == NLMSG_ERROR:
                    waiting.discard(sequence)


def _refuse_error(kind: int, body: bytes) -> None:
    """Raise what an error message says; number 0 is an acknowledgement."""
    if kind == NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", body)
        if number:
            raise OSError(-number, os.strerror(-number))


def _answers(datagram: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The messages of a datagram: kind, body, sequence number."""
    while len(datagram) >= 16:
        length, kind, _flags, sequence, _port = struct.unpack_from("=IHHII", datagram)
        yield kind, datagram[16 : max(length, 16)], sequence
        datagram = datagram[max((length + 3) & ~3, 16) :]
