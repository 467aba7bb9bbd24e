"""A bed's network: a namespace per host, joined by a bridge that is in a namespace too.

Nothing is added to the machine's own network. A namespace's name contains the process that made it,
by pid and start time; the next bed removes those whose process is gone.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import psutil

from development import StackError
from development.signals import first_on_signals, shielded
from lab.bed.description import NETWORK, Description
from loadtest.faults.fault import FaultFailed
from loadtest.faults.hosts import DROP, PORT, SWITCH, Host, Hosts, ip

CLONE_NEWNET = 0x40000000

NAME = re.compile(r"bed-(\d+)-(\d+)-\w+")

NEEDED = (
    "A test bed puts hosts into network namespaces, which needs Linux, root, and Debian's packages "
    "iproute2 and nftables (.ci/install-servers installs them)"
)


@contextmanager
def network(description: Description) -> Iterator[Hosts]:
    """Create the hosts of a bed; afterwards kill what runs on them and remove them.

    Raises:
        StackError: this machine does not allow it; says what is missing.
    """
    if lacking := missing():
        raise StackError(f"{NEEDED}: {lacking}.")
    remove_abandoned()
    names = {name: _namespace(name) for name in (SWITCH, *description.hosts)}
    hosts = Hosts(
        names[SWITCH],
        {name: Host(name, names[name], description.address(name)) for name in description.hosts},
    )
    try:
        try:
            _create(hosts)
        except FaultFailed as error:
            raise StackError(f"{NEEDED}: {error}.") from error
        # Nothing on the hosts outlives them, so that nothing has to be stopped in order.
        with first_on_signals(hosts.kill):
            yield hosts
    finally:
        with shielded():
            for name in names.values():
                _remove(name)


def missing() -> str:
    """Return what this machine lacks for a bed; empty if nothing is known to be missing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "this command does not run as root on Linux"
    programs = [name for name in ("ip", "nft", "tc") if which(name) is None]
    return f"{' and '.join(programs)} cannot be found" if programs else ""


@contextmanager
def joined(host: Host) -> Iterator[None]:
    """Put this process on a host: its sockets and its future children belong there.

    Only the calling thread and threads that it starts later are moved, so this comes first.
    """
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        _enter(Path("/run/netns", host.namespace))
        yield
    finally:
        _check(ctypes.CDLL(None, use_errno=True).setns(before, CLONE_NEWNET))
        os.close(before)


def remove_abandoned() -> None:
    """Remove the namespaces of killed processes, with everything that still runs in them."""
    for line in ip("netns", "list", check=False).splitlines():
        name = line.split()[0]
        found = NAME.fullmatch(name)
        if found and _started(int(found[1])) != int(found[2]):
            _remove(name)


def _create(hosts: Hosts) -> None:
    for namespace in (hosts.switch, *(each.namespace for each in hosts.hosts.values())):
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
    ip("-n", hosts.switch, "link", "add", "bridge", "type", "bridge")
    ip("-n", hosts.switch, "link", "set", "bridge", "up")
    for host in hosts.hosts.values():
        link = ("link", "add", host.name, "type", "veth", "peer", "name", PORT)
        ip("-n", hosts.switch, *link, "netns", host.namespace)
        ip("-n", hosts.switch, "link", "set", host.name, "master", "bridge", "up")
        address = f"{host.address}/{NETWORK.prefixlen}"
        ip("-n", host.namespace, "addr", "add", address, "dev", PORT)
        ip("-n", host.namespace, "link", "set", PORT, "up")
        host.run("nft", "-f", "-", given=DROP)


def _remove(namespace: str) -> None:
    Host(namespace, namespace, "").kill()
    ip("netns", "del", namespace, check=False)


def _namespace(host: str) -> str:
    return f"bed-{os.getpid()}-{_started(os.getpid())}-{host}"


def _started(pid: int) -> int:
    """Return when a process started, in hundredths of a second; 0 if there is none."""
    try:
        return int(psutil.Process(pid).create_time() * 100)
    except psutil.NoSuchProcess:
        return 0


def _enter(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # os.setns exists from Python 3.12 on.
        _check(ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET))
    finally:
        os.close(descriptor)


def _check(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        raise StackError(f"The network namespace cannot be entered: {os.strerror(number)}.")
