"""docker-compose.yml: every command in it also runs in production mode without Docker."""

import os
import re
import shlex
import smtplib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import urllib3
import yaml

from development.embedded import private_servers
from development.ports import next_free
from development.servers import Command, postgres_programs
from lab import environment
from lab.tests.whole_shop import production as production_of
from shop import environment as shop_environment
from shop.background.config import QUEUES
from shop.tests.processes import run, succeed, wait_for

pytestmark = pytest.mark.long


def parsed(path: str) -> dict[str, Any]:
    """Return a Compose file."""
    found: dict[str, Any] = yaml.safe_load((environment.PROJECT / path).read_text())
    return found


COMPOSE = parsed("docker-compose.yml")
OF_THE_DEMO = {
    name: service
    for name, service in parsed("docker/demo/compose.yml")["services"].items()
    if name not in COMPOSE["services"]
}
SERVICES: dict[str, Any] = {**COMPOSE["services"], **OF_THE_DEMO}
SERVICES["seed"] = {**COMPOSE["services"]["beat"], **OF_THE_DEMO["seed"]}  # which it extends
SECRETS = (
    "SECRET_KEY",
    "POSTGRES_PASSWORD",
    "SHOP_DB_PASSWORD",
    "SHOP_OWNER_DB_PASSWORD",
    "REDIS_PASSWORD",
    "ALLOWED_HOSTS",
)
OF_PAYMENTS = ("PSP_URL", "PSP_KEY", "PSP_WEBHOOK_SECRET")
"""What the shop itself refuses to start without, unless `SHOP_PAYMENTS=0`."""
AS_FILES = parsed("docker/secrets.yml")
OURS = {name for name, service in SERVICES.items() if "${COMPOSE_PROJECT_NAME" in service["image"]}


@pytest.fixture(scope="module")
def production(tmp_path_factory):
    """Production's environment as in Compose, with private servers."""
    data = str(tmp_path_factory.mktemp("data"))
    as_in_image = {"PYTHONUNBUFFERED": "1", "DJANGO_SETTINGS_MODULE": "shop.settings"}
    with private_servers(durable=False) as servers:
        more = {"SHOP_DEMO": "0", "SHOP_HTTPS": "1", "SHOP_DATA": data}
        yield production_of(servers.urls, "shop.example", **as_in_image, **more)


def command(service: str) -> list[str]:
    """Return a service's command, with the defaults of its variables."""
    return shlex.split(re.sub(r"\$\{.*?:-(\d+)\}", r"\1", SERVICES[service]["command"]))


def health_check(service: str) -> list[str]:
    """Return the command of a service's health check."""
    kind, *words = SERVICES[service]["healthcheck"]["test"]
    return words if kind == "CMD" else ["sh", "-c", *words]


@contextmanager
def healthy(
    service: str, variables: dict[str, str], here: dict[str, str], *more: str
) -> Iterator[Command]:
    """Run a service inside the block, once its own health check passes.

    Args:
        here: what addresses and folders of the container are on this machine.
        more: arguments of its command.
    """

    def translated(words: list[str]) -> list[str]:
        for there, ours in here.items():
            words = [word.replace(there, ours) for word in words]
        return words

    check = translated(health_check(service))
    assert run(*check, env=variables).returncode != 0
    running = Command(service, [*translated(command(service)), *more])
    running.folder, running.inherited = environment.PROJECT, variables
    try:
        running.begin()
        wait_for(lambda: run(*check, env=variables).returncode == 0)
        yield running
    finally:
        running.remove()


def status_of(url: str, header: str) -> int:
    """Return the status of an answer; follow no redirect."""
    name, _, value = header.partition(": ")
    answer = urllib3.request("GET", url, headers={name: value}, redirect=False, timeout=30)
    return answer.status


def test_compose_migrate_creates_the_tables(production):
    succeed(*command("migrate"), env=production)
    psql = postgres_programs() / "psql"
    assert "inventory_item" in succeed(psql, production["DATABASE_URL"], "-Atc", r"\dt")


def test_compose_web_redirects_to_https_and_checks_hosts(production):
    variables = {**production, "SHOP_PORT": str(next_free(18000))}
    # As in the image's build; the page that refuses a host name has a stylesheet.
    dockerfile = (environment.PROJECT / "Dockerfile").read_text().replace("\\\n", "")
    [collect] = re.findall(r"/venv/bin/(django-admin collectstatic .*)", dockerfile)
    succeed(*shlex.split(collect), env={"PATH": variables["PATH"]}, seconds=300)
    with healthy("web", variables, {}):
        url = f"http://127.0.0.1:{variables['SHOP_PORT']}/healthz"
        assert status_of(url, "Host: shop.example") == 301
        assert status_of(url, "Host: else.example") == 400


def test_pages_service_serves_pages_and_no_calls(production):
    variables = {**production, "SHOP_PORT": str(next_free(18100))}
    statuses = {}
    for service in ("web", "pages"):
        more = {"SHOP_SERVES": SERVICES[service]["environment"]["SHOP_SERVES"], "SHOP_HTTPS": "0"}
        with healthy(service, {**variables, **more}, {}):
            url = f"http://127.0.0.1:{variables['SHOP_PORT']}"
            for path in ("/admin/login/", "/api/v1/orders/1"):
                statuses[service, path] = status_of(url + path, "Host: shop.example")
    assert statuses == {
        ("web", "/admin/login/"): 404,
        ("web", "/api/v1/orders/1"): 401,
        ("pages", "/admin/login/"): 200,
        ("pages", "/api/v1/orders/1"): 404,
    }


def test_compose_payment_provider_refuses_to_misbehave(production, tmp_path):
    port = str(next_free(18790))
    variables = {**production, "PSP_DATABASE": str(tmp_path / "books")}
    with healthy("psp", variables, {"0.0.0.0": "127.0.0.1", "9000": port}):
        url, key = f"http://127.0.0.1:{port}/v1", f"Authorization: Bearer {production['PSP_KEY']}"
        assert status_of(f"{url}/ledger", key) == 200
        assert status_of(f"{url}/behaviour", key) == 404


def test_compose_mail_service_keeps_mails(production, tmp_path):
    port, mail = str(next_free(18025)), tmp_path / "mail"
    here = {"0.0.0.0": "127.0.0.1", "8025": port, "/var/lib/shop/mail": str(mail)}
    with (
        healthy("mail", production, here),
        smtplib.SMTP("127.0.0.1", int(port)) as server,
    ):
        server.sendmail("shop@localhost", "buyer@localhost", "Subject: Thanks\n\nThanks.")
    [kept] = mail.glob("*.eml")
    assert "Delivered-To: buyer@localhost" in kept.read_text()


def test_compose_exporter_serves_and_is_not_published(production, tmp_path):
    variables = {**production, "METRICS_FOLDER": str(tmp_path)}
    here = {"0.0.0.0": "127.0.0.1", "9101": str(next_free(19101))}
    with healthy("exporter", variables, here):
        pass
    service = SERVICES["exporter"]
    assert "ports" not in service
    assert "front" not in service["networks"]
    sharing = {name for name in SERVICES if "METRICS_FOLDER" in str(SERVICES[name])}
    assert sharing == {"web", "pages", "celery", "celery-expiry", "exporter"}
    assert all(service["volumes"] == SERVICES[name]["volumes"] for name in sharing)


@pytest.mark.parametrize("service", ["celery", "celery-expiry"])
def test_compose_celery_services_touch_their_health_file(service, production, tmp_path):
    there = SERVICES[service]["environment"]["ALIVE_FILE"]
    here = str(tmp_path / "alive")
    variables = {**production, "ALIVE_FILE": here}
    with healthy(service, variables, {there: here}, "-n", f"{service}@compose-test"):
        pass


def test_compose_beat_writes_the_schedule_of_its_health_check(production, tmp_path):
    with healthy("beat", production, {"/tmp": str(tmp_path)}):
        pass


def test_compose_locust_runs_in_one_container(production):
    page, bus = str(next_free(18089)), str(next_free(15557))
    more = ["--web-host", "127.0.0.1", "--web-port", page]
    more += ["--master-port", bus, "--master-bind-port", bus]
    with healthy("locust", production, {"8089": page}, *more) as locust:
        wait_for(lambda: "2 workers connected" in locust.log.read_text())


def test_compose_has_a_worker_for_every_queue():
    commands = [command(name) for name in ("celery", "celery-expiry")]
    listened = ",".join(words[words.index("-Q") + 1] for words in commands)
    assert set(listened.split(",")) == set(QUEUES)


def test_compose_secrets_have_no_default():
    text = (environment.PROJECT / "docker-compose.yml").read_text()
    for name in SECRETS:
        uses = re.findall(rf"\$\{{{name}([^}}]*)\}}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), name


def test_compose_publishes_ports_only_locally():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_containers_run_without_root_and_read_only():
    dockerfile = (environment.PROJECT / "Dockerfile").read_text()
    assert set(re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)) == {"shop"}
    assert "--gid 10001" in dockerfile
    for name in OURS | {"nginx"}:
        service = SERVICES[name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name


def test_compose_passes_only_variables_that_the_shop_reads():
    known = {variable.name for variable in environment.ALL_VARIABLES}
    for name in OURS - {"locust"}:
        passed = SERVICES[name].get("environment", {})
        # OpenTelemetry, Flower and PostgreSQL's client read their other variables themselves.
        assert {one for one in passed if not one.startswith(("OTEL_", "FLOWER_", "PG"))} <= known, (
            name
        )


SHOP = OURS - {"psp", "mail", "locust"}
"""The services that run the shop's own code, and so read its settings."""

OF_CONTAINERS = {
    "SHOP_BIND",
    "SHOP_PORT",
    "METRICS_PORT",
    "METRICS_FOLDER",
    "ALIVE_FILE",
    "DB_POOL_SIZE",
    "SHOP_SERVES",
}
"""Settings that a container has for itself."""

OWN = set(shop_environment.own("defaults"))
"""Settings whose defaults are in own/shop.toml."""

MADE = {
    "DATABASE_URL",
    "REDIS_URL",
    "CELERY_BROKER_URL",
    "SECRET_KEY",
    "ALLOWED_HOSTS",
    "TRUSTED_PROXIES",
}
"""Settings that docker-compose.yml makes of others, requires, or knows better: it has a proxy."""


def test_compose_passes_every_setting_to_every_service():
    passed = COMPOSE["x-shop-environment"]
    for variable in environment.SHOP_VARIABLES:
        if variable.name in OF_CONTAINERS:
            continue
        assert variable.name in passed, f"docker-compose.yml does not pass {variable.name}"
        for service in SHOP:
            assert variable.name in SERVICES[service]["environment"], (service, variable.name)
        if variable.name not in MADE:
            # With a limit for the demo where it has none, its runs would be throttled.
            default = "" if variable.name in {"RATE_LIMIT", *OWN} else variable.default
            assert passed[variable.name] == f"${{{variable.name}:-{default}}}"


def test_compose_secrets_may_be_files_for_every_service():
    of_the_demo = parsed("docker/demo/secrets.yml")["services"]
    assert set(AS_FILES["services"]) == SHOP - {"seed"} | {"postgres", "redis"}
    assert of_the_demo.pop("seed")["extends"] == {"file": "docker/secrets.yml", "service": "beat"}
    overlays = {**AS_FILES["services"], **of_the_demo}
    secret = [variable.name for variable in environment.SHOP_VARIABLES if variable.secret]
    assert len(secret) == 9
    for service in (*SHOP - {"seed"}, "psp"):
        overlay = overlays[service]
        for name in secret:
            if name not in SERVICES[service]["environment"]:
                continue
            assert overlay["environment"][name] == "", (service, name)
            file = overlay["environment"][f"{name}_FILE"].removeprefix("/run/secrets/")
            assert file in overlay["secrets"], (service, name)
    used = {file for overlay in AS_FILES["services"].values() for file in overlay["secrets"]}
    assert used == set(AS_FILES["secrets"])


FAKE_COMPOSE = """#!/bin/sh
echo "$*" >>{log}
for service; do :; done
case "$*" in
    "ps -q "*) cat {replicas}-$service ;;
    *" --scale "*) echo "new-$(wc -l <{log})" >>{replicas}-$service ;;
    "ps --services"*) printf '%s\\n' {services} ;;
esac
"""
FAKE_DOCKER = """#!/bin/sh
case "$1" in
    inspect) echo healthy ;;
    rm)
        for each in {replicas}-*; do
            grep -vxF "$2" $each >{replicas}.left; mv {replicas}.left $each
        done ;;
esac
"""


def test_compose_rolling_restart_replaces_all_running_services(tmp_path):
    log, replicas = tmp_path / "log", tmp_path / "replicas"
    kept = {service: tmp_path / f"replicas-{service}" for service in ("web", "pages")}
    for service, each in kept.items():
        each.write_text(f"old-{service}-1\nold-{service}-2\n")
    running_services = " ".join(SERVICES)
    here = {"log": log, "replicas": replicas, "services": running_services}
    fakes = {"compose": FAKE_COMPOSE, "docker": FAKE_DOCKER, "sleep": "#!/bin/sh\n"}
    for name, script in fakes.items():
        program = tmp_path / name
        program.write_text(script.format(**here))
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = str(environment.PROJECT / "docker/rolling-restart")
    succeed(script, env={"PATH": path, "COMPOSE": "compose"})
    for each in kept.values():
        assert each.read_text().count("new") == 2
        assert "old" not in each.read_text()
    commands = log.read_text().splitlines()
    assert set(commands[-1].split()) - {"up", "-d", "--no-deps", "--no-build"} == OURS - {
        "web",
        "pages",
        "migrate",
    }
    own_images = {name for name in OURS if "build" in SERVICES[name]}
    [build] = [command for command in commands if command.startswith("build")]
    assert set(build.split()[1:]) == own_images


def test_compose_limits_memory_and_processes_of_each_service():
    for name, service in SERVICES.items():
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert "ulimits" not in service, name  # fails where the hard limit is lower


def test_compose_pools_fit_the_servers_connections():
    def pool(name: str) -> int:
        return int(SERVICES[name]["environment"]["DB_POOL_SIZE"])

    [allowed] = re.findall(r"max_connections=(\d+)", SERVICES["postgres"]["command"])
    web = (3 + 1) * int(environment.text("WEB_CONCURRENCY")) * (pool("web") + pool("pages"))
    celery = sum(
        # The parent process, and its children.
        (1 + int(words[words.index("-c") + 1])) * pool(name)
        for name in ("celery", "celery-expiry")
        for words in [command(name)]
    )
    others = sum(pool(name) for name in ("beat", "migrate", "exporter", "seed"))
    kept_for_the_superuser = 3
    assert web + celery + others <= int(allowed) - kept_for_the_superuser


@pytest.mark.parametrize("arguments", [[], ["--demo"], ["--demo", "--ha"]])
def test_new_env_fills_in_secrets_and_keeps_an_existing_file(tmp_path, arguments):
    script = str(environment.PROJECT / "docker/new-env")
    variables = {"PATH": os.environ["PATH"], "ENV_FILE": str(tmp_path / ".env")}
    assert run(script, "--dmeo", env=variables).returncode == 2
    succeed(script, *arguments, env=variables)
    written = (tmp_path / ".env").read_text()
    values = dict(re.findall(r"^([A-Z_]+)=(.*)$", written, re.MULTILINE))
    empty = {name for name in (*SECRETS, *OF_PAYMENTS) if not values[name]}
    assert empty == ({"PSP_URL"} if not arguments else set())
    made = [value for value in values.values() if re.fullmatch("[0-9a-f]{64}", value)]
    assert len(made) == len(set(made)) == (11 if "--ha" in arguments else 8)
    names = [
        "docker-compose.yml",
        *(f"docker/{argument[2:]}/compose.yml" for argument in arguments),
    ]
    assert values["COMPOSE_FILE"] == ":".join(names)
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert run(script, env=variables).returncode != 0
    assert (tmp_path / ".env").read_text() == written


def test_image_collects_the_shops_static_files(tmp_path):
    def collect(*settings: str, **variables: str) -> set[str]:
        words = [sys.executable, "-m", "django", "collectstatic", "--dry-run", "--no-input", "-v1"]
        paths = os.pathsep.join([str(environment.PROJECT), str(environment.PROJECT / "docker")])
        plain = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "SHOP_DEMO": "0", **variables}
        said = succeed(*words, *settings, env={**plain, "SECRET_KEY": "only-for-this-test"})
        return set(re.findall(r"copy '(.*)'", said))

    [ignored] = re.findall(r"--ignore (\S+)", (environment.PROJECT / "Dockerfile").read_text())
    image = collect("--settings", "static_settings", "--ignore", ignored)
    shop = collect("--settings", "shop.settings")
    assert shop - image == {path for path in shop if f"/{ignored}/" in path}
    assert image <= shop


def test_flower_starts_only_with_a_password(tmp_path):
    words = [word.replace("$$", "$") for word in command("flower")]
    celery = tmp_path / "celery"
    celery.write_text('#!/bin/sh\necho "started: $*"\n')
    celery.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    without, given = (
        run(*words, env={"PATH": path, "FLOWER_BASIC_AUTH": f"operator:{password}"})
        for password in ("", "a password")
    )
    assert (without.returncode, without.stdout) == (1, "")
    assert given.stdout.startswith("started: -A shop flower")
