"""The network of a bed: who reaches whom, and that nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from lab.bed import network as networks
from lab.bed.description import Description
from lab.bed.network import network, remove_abandoned
from loadtest.faults import hosts as hosts_module
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Hosts, ip

LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    while True:
        server.accept()[0].close()
"""

CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], 7000), timeout=1).close()
"""

# More at once than a slow link takes without a queue.
SEND_MANY = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as sender:
    for _ in range(16):
        sender.sendto(bytes(1400), (sys.argv[1], 7000))
"""

BED = Description("planted", "", {"shop": [], "one": [], "two": []}, [])


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with network(BED) as hosts:
        for host in hosts.hosts.values():
            command = [*host.inside, sys.executable, "-c", LISTEN, host.address]
            subprocess.Popen(command, start_new_session=True)
        for receiver in hosts.hosts:
            wait_until("it listens", partial(reaches, hosts, "shop", receiver), 30)
        yield hosts


def reaches(hosts: Hosts, sender: str, receiver: str) -> bool:
    try:
        hosts[sender].run(sys.executable, "-c", CONNECT, hosts[receiver].address)
    except FaultFailed:
        return False
    return True


@pytest.mark.long
@pytest.mark.hosts
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_cut_separates_two_hosts_and_no_others_until_it_is_undone(hosts):
    assert reaches(hosts, "one", "two")
    hosts.separate(["one"], ["two"])
    assert not reaches(hosts, "one", "two")
    assert not reaches(hosts, "two", "one")
    assert reaches(hosts, "shop", "two")
    hosts.reconnect()
    assert reaches(hosts, "one", "two")
    hosts.isolate("one")
    assert [reaches(hosts, "one", other) for other in ("shop", "two")] == [False, False]
    hosts.reconnect()
    killed = hosts.power_off("two")
    assert len(killed) == 1
    assert not reaches(hosts, "one", "two")
    assert hosts["two"].processes() == []
    assert reaches(hosts, "one", "shop")


@pytest.mark.hosts
def test_a_slow_link_lets_packets_wait_in_both_directions_until_it_is_fast_again():
    with network(BED) as hosts:
        one, two = hosts["one"], hosts["two"]
        hosts.slow_down("one")
        for sender, receiver, there in ((one, two, one.namespace), (two, one, hosts.switch)):
            [told] = [each for each in shapers(there) if each["kind"] == "tbf"]
            assert (told["options"]["rate"], told["overlimits"]) == (8_000, 0)
            sender.run(sys.executable, "-c", SEND_MANY, receiver.address)
            wait_until("packets wait", partial(is_waited_in, there), 20)
        hosts.reconnect()
        assert "tbf" not in {each["kind"] for each in shapers(one.namespace)}
        assert "tbf" not in {each["kind"] for each in shapers(hosts.switch)}


def is_waited_in(namespace: str) -> bool:
    return any(each["kind"] == "tbf" and each["overlimits"] > 0 for each in shapers(namespace))


def shapers(namespace: str) -> list[dict[str, Any]]:
    """Return how the links of a namespace send."""
    told = subprocess.check_output(["tc", "-n", namespace, "-s", "-j", "qdisc", "show"])
    return list(json.loads(told))


@pytest.mark.hosts
def test_a_killed_command_leaves_nothing_behind(monkeypatch):
    """The namespaces of a process that is gone are removed, those of this one stay."""
    with network(BED) as hosts:
        monkeypatch.setattr(networks, "_namespace", lambda host: f"bed-1-1-{host}")
        ip("netns", "add", "bed-1-1-one")
        remove_abandoned()
        left = ip("netns", "list")
        assert "bed-1-1-one" not in left
        assert hosts["one"].namespace in left
    assert hosts["one"].namespace not in ip("netns", "list")


def test_without_the_right_to_make_hosts_the_error_says_what_is_needed(monkeypatch):
    monkeypatch.setattr(networks, "missing", str)

    def refused(*words: str, check: bool = True) -> str:
        if words[:2] == ("netns", "add"):
            raise FaultFailed("mkdir /run/netns failed: Permission denied")
        return ""

    monkeypatch.setattr(networks, "ip", refused)
    monkeypatch.setattr(hosts_module, "ip", refused)
    with (
        pytest.raises(networks.StackError, match=r"needs Linux, root.*Permission denied"),
        network(BED),
    ):
        pass


def test_another_user_than_root_is_told_at_once(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(networks.StackError, match="does not run as root"), network(BED):
        pass
