"""What a bed's file says, and its network: who reaches whom, and that nothing of it is left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import pytest

from lab import environment
from lab.bed import description
from lab.bed import network as networks
from lab.bed.bed import FRONT, KINDS, OF_SHOP
from lab.bed.description import NETWORK, Description
from lab.bed.network import NAME, network, remove_abandoned
from loadtest.faults import BED_FAULTS, FAULTS, find
from loadtest.faults import hosts as hosts_module
from loadtest.faults.fault import FaultFailed, wait_until
from loadtest.faults.hosts import Host, Hosts, Server, ip


@pytest.mark.parametrize("name", description.names())
def test_a_bed_names_servers_and_faults_that_exist(name):
    bed = description.read(name)
    known = {*KINDS, *OF_SHOP, FRONT}
    assert {server for servers in bed.hosts.values() for server in servers} <= known
    assert set(bed.faults) <= {*FAULTS, *BED_FAULTS}


def test_every_fault_of_several_hosts_belongs_to_a_bed():
    offered = {fault for name in description.names() for fault in description.read(name).faults}
    assert set(BED_FAULTS) <= offered
    assert not set(BED_FAULTS) & set(FAULTS)
    assert find("redis-split") is BED_FAULTS["redis-split"]


def test_each_host_has_an_address_of_its_own_in_the_order_of_the_file():
    bed = description.read("sentinel")
    addresses = [IPv4Address(bed.address(host)) for host in bed.hosts]
    assert addresses == sorted(set(addresses))
    assert all(address in NETWORK for address in addresses)
    assert bed.hosts_of("sentinel") == ["redis1", "redis2", "redis3"]


def test_the_page_lists_every_bed_with_its_faults():
    page = (environment.PROJECT / "docs" / "clusters.md").read_text()
    for name in description.names():
        (faults,) = re.findall(rf"(?m)^\| `{name}` \| .* \| (.*) \|$", page)
        assert set(re.findall(r"`([\w-]+)`", faults)) == set(description.read(name).faults)


def test_a_file_with_an_unknown_word_is_refused(tmp_path, monkeypatch):
    (tmp_path / "beds.toml").write_text("[planted]\nfualts = []\nhosts = {shop = []}\n")
    monkeypatch.setattr(description, "FILE", tmp_path / "beds.toml")
    assert description.names() == ["planted"]
    with pytest.raises(ValueError, match="fualts"):
        description.read("planted")


def test_a_namespace_tells_which_process_made_it():
    assert NAME.fullmatch("bed-12-3456-redis1")
    assert not NAME.fullmatch("bed-redis1"), "another program's namespace is left alone"


def test_hosts_are_read_as_they_were_written(tmp_path):
    server = Server("redis", ["redis-server"], {"A": "b"}, "/tmp/log")
    hosts = Hosts("s", {"redis1": Host("redis1", "ns", "10.77.0.10", [server])})
    file = tmp_path / "hosts.json"
    hosts.write(file)
    assert Hosts.read(str(file)) == hosts
    assert file.stat().st_mode & 0o077 == 0


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

BED = Description("planted", {"shop": [], "one": [], "two": []}, [])


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
