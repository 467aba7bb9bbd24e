"""The monitoring and the Helm chart: valid, and naming only what exists."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY

from development.needs import needs
from lab import environment
from lab.tests.needs import PROMETHEUS, TOOLS_OF_CI
from loadtest.faults import FAULTS
from shop.operating import exporter
from shop.tests.processes import run, succeed

DOCKER = environment.PROJECT / "docker"
RULES: dict[str, Any] = yaml.safe_load((DOCKER / "prometheus/rules.yml").read_text())
CONFIG: dict[str, Any] = yaml.safe_load((DOCKER / "prometheus/prometheus.yml").read_text())
DASHBOARD: dict[str, Any] = json.loads((DOCKER / "grafana/dashboards/shop.json").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((environment.PROJECT / "docker-compose.yml").read_text())

ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAME = re.compile(r"\b(?:inventory|shop)_\w+|\bup\b")
SIGNS = {
    ("Since the last start", "shop_process_started_seconds"): (
        "celery-killed web-killed web-killed-before-commit web-killed-after-commit"
        " web-killed-before-answer"
    ),
    ("Since the last start", "shop_server_started_seconds"): (
        "redis-failover postgres-killed postgres-restarted"
    ),
    ("Locks that failed", "inventory_lock_lost_total"): "holder-paused",
    ("Redis unavailable", "inventory_redis_unavailable_total"): (
        "redis-killed redis-paused redis-slow redis-mute redis-reset redis-full"
    ),
    ("Database pool", "inventory_connections_dead_total"): "postgres-terminated",
    ("Calls by status", "shop_api_seconds_count"): "postgres-exhausted disk-full",
    ("Transactions repeated", "inventory_commit_unknown_total"): "commit-lost",
    ("Mails", "shop_mails_total"): "mail-killed",
    ("Clocks", "shop_clock_ahead_seconds"): "clock-stepped",
}
"""By panel and metric: the faults seen there. An emptied broker has none: sweeps do its work."""
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def counted_here() -> list[tuple[str, tuple[str, ...]]]:
    """Return the names of the metrics that processes count, with the suffixes of their series."""
    return [
        (metric.name, SUFFIXES[metric.type])
        for metric in REGISTRY.collect()
        if metric.name.startswith(("inventory_", "shop_"))
    ]


@pytest.fixture
def exported(transactional_db: None) -> set[str]:
    """Names of all series that the exporter can show."""
    counted = {name + suffix for name, suffixes in counted_here() for suffix in suffixes}
    of_state = {family.name for family in exporter.State().collect()}
    return counted | of_state | {"shop_process_alive", "up"}


def test_rules_and_dashboard_name_metrics_that_exist(exported: set[str]) -> None:
    for expression in (*QUERIES, *(alert["expr"] for alert in ALERTS)):
        # Label values such as {job="shop"} are no metrics.
        named = set(NAME.findall(re.sub(r'"[^"]*"', "", expression)))
        assert named, expression
        assert named <= exported, expression


def test_dashboard_shows_every_metric(exported: set[str]) -> None:
    shown = {name for query in QUERIES for name in NAME.findall(query)}
    for name, suffixes in counted_here():
        assert {name + suffix for suffix in suffixes} & shown, name
    assert {name for name in exported if name.startswith(("shop_owed", "shop_up"))} <= shown


def test_dashboard_has_a_panel_for_every_fault() -> None:
    seen = {fault for faults in SIGNS.values() for fault in faults.split()}
    assert set(FAULTS) ^ seen == {"broker-emptied"}
    shown = {panel["title"]: panel["targets"] for panel in PANELS}
    for panel, metric in SIGNS:
        assert any(metric in NAME.findall(target["expr"]) for target in shown[panel]), metric


def test_alerts_have_a_severity_and_a_description() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert len(set(names)) == len(names) > 10
    for alert in ALERTS:
        assert alert["labels"]["severity"] in {"page", "ticket"}, alert
        assert alert["annotations"]["summary"].endswith("."), alert


def test_runbook_has_a_row_for_exactly_every_alert() -> None:
    text = (environment.PROJECT / "docs/operations.md").read_text()
    section = text.partition("| alert |")[2].partition("##")[0]
    rows = re.findall(r"^\| (\w+) \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(alert["alert"] for alert in ALERTS)


def test_prometheus_and_grafana_use_the_right_addresses() -> None:
    services = COMPOSE["services"]
    [job] = CONFIG["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert port in services[host]["command"].split()
    source = yaml.safe_load(
        (DOCKER / "grafana/provisioning/datasources/prometheus.yml").read_text()
    )["datasources"][0]
    assert source["url"].split("/")[2].split(":")[0] in services
    assert {panel["datasource"]["uid"] for panel in PANELS} == {source["uid"]}
    for name in ("exporter", "prometheus", "grafana"):
        assert services[name]["profiles"] == ["metrics"], name


@needs(PROMETHEUS)
def test_promtool_accepts_the_rules_and_the_dashboards_queries(tmp_path: Path) -> None:
    recorded = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    as_rules = tmp_path / "queries.yml"
    as_rules.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    for path in (DOCKER / "prometheus/rules.yml", as_rules):
        command = ["promtool", "check", "rules", str(path)]
        succeed(*command)


@needs(PROMETHEUS)
def test_alert_fires_for_a_clock_that_is_wrong_for_a_minute(tmp_path: Path) -> None:
    wrong = {"process": "a.1.celery"}
    series = [
        {"series": 'shop_clock_ahead_seconds{process="a.1.celery"}', "values": "-30x8"},
        {"series": 'shop_clock_ahead_seconds{process="b.2.celery"}', "values": "30 0x8"},
        {"series": 'shop_clock_ahead_seconds{process="c.3.web"}', "values": "3x8"},
    ]
    [rule] = [alert for alert in ALERTS if alert["alert"] == "ClockWrong"]
    fired = {"exp_labels": {**wrong, **rule["labels"]}, "exp_annotations": rule["annotations"]}
    expected = {"eval_time": "2m", "alertname": "ClockWrong", "exp_alerts": [fired]}
    wanted = {
        "rule_files": [str(DOCKER / "prometheus/rules.yml")],
        "tests": [{"interval": "15s", "input_series": series, "alert_rule_test": [expected]}],
    }
    file = tmp_path / "clock.yml"
    file.write_text(yaml.safe_dump(wanted))
    succeed("promtool", "test", "rules", str(file))


KUBERNETES = environment.PROJECT / "docker" / "kubernetes"


def checked(folder: Path) -> CompletedProcess[str]:
    return run(sys.executable, ".ci/check_chart.py", folder)


@needs(TOOLS_OF_CI)
def test_chart_is_accepted() -> None:
    done = checked(KUBERNETES)
    assert (done.returncode, done.stderr) == (0, "")


@needs(TOOLS_OF_CI)
def test_chart_that_is_broken_is_refused(tmp_path: Path) -> None:
    """A number as text, a misspelt probe, an unknown kind, a value that no template knows."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    for file, right, wrong in (
        ("shop/templates/beat.yaml", "replicas: 1", "replicas: one"),
        ("shop/templates/web.yaml", "livenessProbe:", "livenesProbe:"),
        ("shop/templates/network.yaml", "kind: NetworkPolicy", "kind: NetworkRule"),
        ("engines/redis.yaml", "redis.opstreelabs.in/v1beta2", "redis.opstreelabs.in/v9"),
    ):
        path = folder / file
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong))
    done = checked(folder)
    assert done.returncode == 1
    for said in ("'one' is not", "livenesProbe", "no NetworkRule", "no RedisSentinel in"):
        assert said in done.stderr, done.stderr
