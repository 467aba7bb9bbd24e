"""What a bed's file may say, and the addresses that follow from it."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from lab import environment
from lab.bed import description
from lab.bed.bed import FRONT, KINDS, OF_SHOP
from lab.bed.description import NETWORK
from lab.bed.network import NAME
from loadtest.faults import BED_FAULTS, FAULTS, find
from loadtest.faults.hosts import Host, Hosts, Server


@pytest.mark.parametrize("name", description.names())
def test_a_bed_names_servers_and_faults_that_exist(name):
    bed = description.read(name)
    assert bed.about
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


def test_the_page_lists_every_bed_and_every_fault_with_what_is_expected():
    page = (environment.PROJECT / "docs" / "clusters.md").read_text()
    for name in description.names():
        assert f"\n| `{name}` | " in page
    for name, fault in BED_FAULTS.items():
        assert f"\n| `{name}` | {fault.what} | {fault.expected} |\n" in page


def test_a_file_with_an_unknown_word_is_refused(tmp_path, monkeypatch):
    (tmp_path / "beds.toml").write_text('[planted]\nabuot = ""\nfaults = []\nhosts = {shop = []}\n')
    monkeypatch.setattr(description, "FILE", tmp_path / "beds.toml")
    assert description.names() == ["planted"]
    with pytest.raises(ValueError, match="abuot"):
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
