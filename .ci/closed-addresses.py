#!/usr/bin/env python3
"""Runs a command where every address that tenants must not reach is one of the machine's own.

It has a network of its own, in which nothing else is: whoever connects to such an address reaches a
listener of the tests, which counts. AGENTLING_TEST_ADDRESSES names the addresses. Where no such network
can be made, this says `skipped: ` and why, and succeeds.
"""

import fcntl
import ipaddress
import os
import socket
import struct
import subprocess
import sys

# The addresses of the corpus of hostile URLs that a machine can have.
ADDRESSES = """
10.0.0.1 100.64.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1
192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 240.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
64:ff9b:1::a00:1 2002:7f00:1::1 2002:a9fe:a9fe:: 2001::1 2001:0:7f00:1:: 2001:db8::1 100::1 fc00::1
fd00:ec2::254 fec0::1 3fff::1 5f00::1
""".split()
# Without these, the tests would show too little.
NEEDED = {"10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1"}

LOOPBACK = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
RTM_NEWADDR, REQUEST_AND_ACK = 20, 0x1 | 0x4
IFA_ADDRESS, IFA_LOCAL, IFA_F_NODAD = 1, 2, 0x2


def skip(why):
    print(f"skipped: {why}")
    sys.exit(0)


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def add(netlink, address):
    """Gives an address to the loopback interface; whether that can be done."""
    address = ipaddress.ip_address(address)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    head = struct.pack("BBBBI", family, address.max_prefixlen, IFA_F_NODAD, 0, LOOPBACK)
    attributes = b"".join(
        struct.pack("HH", 4 + len(address.packed), kind) + address.packed
        for kind in (IFA_LOCAL, IFA_ADDRESS)
    )
    body = head + attributes
    netlink.send(struct.pack("IHHII", 16 + len(body), RTM_NEWADDR, REQUEST_AND_ACK, 0, 0) + body)
    return struct.unpack_from("i", netlink.recv(4096), 16)[0] == 0


def inside(command):
    raise_loopback()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        added = [address for address in ADDRESSES if add(netlink, address)]
    if missing := NEEDED - set(added):
        skip(f"the loopback interface does not take {sorted(missing)}")
    print(f"{len(added)} of {len(ADDRESSES)} closed addresses are this machine's own")
    os.environ["AGENTLING_TEST_ADDRESSES"] = ",".join(added)
    os.execvp(command[0], command)


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    apart = ["unshare", "--net"]
    if os.getuid() != 0:
        apart += ["--map-current-user", "--keep-caps"]
    try:
        subprocess.run([*apart, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        skip(f"no network of its own can be made: {error}")
    os.execvp(apart[0], [*apart, sys.executable, __file__, "--inside", *sys.argv[1:]])


main()
