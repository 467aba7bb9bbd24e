"""docker-compose.yml: every command in it also runs in production mode without Docker."""

import os
import re
import secrets
import shlex
import smtplib
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from development import postgres
from development.embedded import private_servers
from development.ports import next_free
from lab import environment
from lab.stack.stack import QUEUES, serves, worker_answers
from shop.tests.processes import wait_for

pytestmark = pytest.mark.long

COMPOSE: dict[str, Any] = yaml.safe_load((environment.PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
SECRETS = (
    *("SECRET_KEY", "POSTGRES_PASSWORD", "SHOP_DB_PASSWORD", "SHOP_OWNER_DB_PASSWORD"),
    *("REDIS_PASSWORD", "ALLOWED_HOSTS", "PSP_URL", "PSP_KEY", "PSP_WEBHOOK_SECRET"),
)
OURS = {name for name, service in SERVICES.items() if service["image"].startswith("flash-sale")}


@pytest.fixture(scope="module")
def production(tmp_path_factory):
    """Production's environment as in Compose, with private servers."""
    with private_servers(durable=False) as servers:
        yield {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "SHOP_DEMO": "0",
            "SHOP_HTTPS": "1",
            "SHOP_DATA": str(tmp_path_factory.mktemp("data")),
            "SECRET_KEY": secrets.token_hex(),
            "ALLOWED_HOSTS": "shop.example",
            "PSP_URL": "http://127.0.0.1:1",
            "PSP_KEY": "only-for-this-test",
            "PSP_WEBHOOK_SECRET": secrets.token_hex(),
            **servers.urls.as_environment(),
        }


def command(service: str) -> list[str]:
    return shlex.split(SERVICES[service]["command"])


@contextmanager
def running(arguments: list[str], variables: dict[str, str], log: Path):
    with (
        log.open("wb") as output,
        subprocess.Popen(
            arguments,
            cwd=environment.PROJECT,
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def run(
    arguments: list[str], variables: dict[str, str], seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=environment.PROJECT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def test_the_migrate_service_creates_the_tables(production):
    result = run(command("migrate"), production)
    assert result.returncode == 0, result.stderr
    tables = run(
        [str(postgres.programs() / "psql"), production["DATABASE_URL"], "-Atc", r"\dt"], production
    )
    assert "inventory_item" in tables.stdout


def test_the_web_service_serves_and_passes_its_own_health_check(production, tmp_path):
    variables = {**production, "SHOP_PORT": str(next_free(18000))}
    check = [sys.executable, *SERVICES["web"]["healthcheck"]["test"][2:]]
    assert run(check, variables).returncode != 0
    # As in the image's build; the page that refuses a host name has a stylesheet.
    dockerfile = (environment.PROJECT / "Dockerfile").read_text().replace("\\\n", "")
    [collect] = re.findall(r"/venv/bin/(django-admin collectstatic .*)", dockerfile)
    assert run(shlex.split(collect), {"PATH": variables["PATH"]}, 300).returncode == 0
    with running(command("web"), variables, tmp_path / "log"):
        wait_for(lambda: run(check, variables).returncode == 0)
        # Plain HTTP is redirected to HTTPS, and unknown host names are refused.
        url = f"http://127.0.0.1:{variables['SHOP_PORT']}/healthz"
        for host, status in (("shop.example", 301), ("else.example", 400)):
            answer = run(
                ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {host}", url],
                variables,
            )
            assert answer.stdout == str(status), host


def test_the_payment_provider_serves_and_takes_no_orders_to_misbehave(production, tmp_path):
    port = next_free(18790)
    arguments = [part.replace("0.0.0.0:9000", f"127.0.0.1:{port}") for part in command("psp")]
    check = SERVICES["psp"]["healthcheck"]["test"][3].replace("9000", str(port))
    variables = {**production, "PSP_DATABASE": str(tmp_path / "books")}
    with running(arguments, variables, tmp_path / "log"):
        wait_for(lambda: run([sys.executable, "-c", check], production).returncode == 0)
        key = f"Authorization: Bearer {production['PSP_KEY']}"
        for path, status in (("ledger", "200"), ("behaviour", "404")):
            url = f"http://127.0.0.1:{port}/v1/{path}"
            ask = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", key, url]
            assert run(ask, production).stdout == status, path


def test_the_mail_service_keeps_what_it_takes(production, tmp_path):
    port = str(next_free(18025))
    words = {"0.0.0.0": "127.0.0.1", "8025": port, "/var/lib/shop/mail": str(tmp_path / "mail")}
    arguments = [words.get(word, word) for word in command("mail")]
    check = SERVICES["mail"]["healthcheck"]["test"][3].replace("8025", port)
    with running(arguments, production, tmp_path / "log"):
        wait_for(lambda: run([sys.executable, "-c", check], production).returncode == 0)
        with smtplib.SMTP("127.0.0.1", int(port)) as server:
            server.sendmail("shop@localhost", "buyer@localhost", "Subject: Thanks\n\nThanks.")
    [kept] = (tmp_path / "mail").glob("*.eml")
    assert "Delivered-To: buyer@localhost" in kept.read_text()


def test_the_exporter_serves_passes_its_check_and_is_published_nowhere(production, tmp_path):
    port = str(next_free(19101))
    words = {"0.0.0.0": "127.0.0.1", "9101": port}
    arguments = [words.get(word, word) for word in command("exporter")]
    service = SERVICES["exporter"]
    check = service["healthcheck"]["test"][3].replace("9101", port)
    variables = {**production, "METRICS_FOLDER": str(tmp_path)}
    with running(arguments, variables, tmp_path / "log"):
        wait_for(lambda: run([sys.executable, "-c", check], variables).returncode == 0)
    assert "ports" not in service
    assert "front" not in service["networks"]
    sharing = {name for name in SERVICES if "METRICS_FOLDER" in str(SERVICES[name])}
    assert sharing == {"web", "celery", "celery-expiry", "exporter"}
    assert all(service["volumes"] == SERVICES[name]["volumes"] for name in sharing)


@pytest.mark.parametrize("service", ["celery", "celery-expiry"])
def test_the_celery_services_answer_a_ping(service, production, tmp_path):
    name = f"{service}@compose-test"
    with running([*command(service), "-n", name], production, tmp_path / "log"):
        wait_for(lambda: worker_answers(production["CELERY_BROKER_URL"], name))


def test_the_beat_service_writes_the_schedule_its_health_check_looks_at(production, tmp_path):
    arguments = [part.replace("/tmp/", f"{tmp_path}/") for part in command("beat")]
    check = SERVICES["beat"]["healthcheck"]["test"][1].replace("/tmp", str(tmp_path))
    with running(arguments, production, tmp_path / "log"):
        wait_for(lambda: run(["sh", "-c", check], production).returncode == 0)


def test_the_locust_service_has_its_processes_and_its_page_in_one_container(production, tmp_path):
    page, bus = str(next_free(18089)), str(next_free(15557))
    words = [re.sub(r"\$\{.*:-(\d+)\}", r"\1", word) for word in command("locust")]
    more = ["--web-host", "127.0.0.1", "--web-port", page]
    more += ["--master-port", bus, "--master-bind-port", bus]
    with running([*words, *more], production, tmp_path / "log"):
        wait_for(lambda: serves(f"http://127.0.0.1:{page}/"))
        wait_for(lambda: "2 workers connected" in (tmp_path / "log").read_text())


def test_some_worker_listens_to_every_queue():
    commands = [command(name) for name in ("celery", "celery-expiry")]
    listened = ",".join(words[words.index("-Q") + 1] for words in commands)
    assert set(listened.split(",")) == set(QUEUES)


def test_every_secret_must_be_given_and_has_no_default():
    text = (environment.PROJECT / "docker-compose.yml").read_text()
    for name in SECRETS:
        uses = re.findall(rf"\$\{{{name}([^}}]*)\}}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), name


def test_every_published_port_is_on_the_local_address_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_container_of_ours_runs_as_root_or_may_write_to_its_image():
    dockerfile = (environment.PROJECT / "Dockerfile").read_text()
    assert set(re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)) == {"shop"}
    assert "--gid 10001" in dockerfile
    for name in OURS | {"nginx"}:
        service = SERVICES[name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name


def test_every_variable_passed_to_the_shop_is_one_it_reads():
    known = {variable.name for variable in environment.ALL_VARIABLES}
    for name in OURS - {"locust"}:
        passed = SERVICES[name].get("environment", {})
        # OpenTelemetry, Flower and PostgreSQL's client read their other variables themselves.
        assert {one for one in passed if not one.startswith(("OTEL_", "FLOWER_", "PG"))} <= known, (
            name
        )


def test_every_image_is_built_by_one_service_and_pulled_by_none():
    builders = [name for name in OURS if "build" in SERVICES[name]]
    images = [SERVICES[name]["image"] for name in builders]
    assert sorted(images) == sorted({SERVICES[name]["image"] for name in OURS})
    for name in OURS:
        expected = "build" if name in builders else "never"
        assert SERVICES[name]["pull_policy"] == expected, name


def test_no_service_may_take_all_memory_or_all_processes():
    for name, service in SERVICES.items():
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert "ulimits" not in service, name  # fails where the hard limit is lower


def test_the_pools_of_three_replicas_and_an_update_fit_the_servers_connections():
    def pool(name: str) -> int:
        return int(SERVICES[name]["environment"]["DB_POOL_SIZE"])

    [allowed] = re.findall(r"max_connections=(\d+)", SERVICES["postgres"]["command"])
    web = (3 + 1) * int(environment.text("WEB_CONCURRENCY")) * pool("web")
    celery = sum(
        # The parent process, and its children.
        (1 + int(words[words.index("-c") + 1])) * pool(name)
        for name in ("celery", "celery-expiry")
        for words in [command(name)]
    )
    others = sum(pool(name) for name in ("beat", "migrate", "exporter", "seed"))
    kept_for_the_superuser = 3
    assert web + celery + others <= int(allowed) - kept_for_the_superuser


def test_nginx_looks_replicas_up_while_it_runs_and_no_other_service_listens_on_their_port():
    configuration = (environment.PROJECT / "docker/nginx/nginx.conf").read_text()
    [alias] = SERVICES["web"]["networks"]["front"]["aliases"]
    assert f"server {alias}:8000 resolve" in configuration
    assert "8000" not in SERVICES["psp"]["command"]
    assert "psp" not in {
        name for name, service in SERVICES.items() if "front" in service["networks"]
    }


def test_migrations_and_the_shop_have_an_account_each():
    assert SERVICES["migrate"]["environment"]["DATABASE_URL"].startswith("postgresql://shop_owner:")
    shop = COMPOSE["x-shop-environment"]["DATABASE_URL"]
    assert shop.startswith("postgresql://shop:${SHOP_DB_PASSWORD")
    assert "postgres" not in SERVICES["psp"].get("depends_on", {})
    assert "POSTGRES_USER" not in SERVICES["postgres"]["environment"]


@pytest.mark.parametrize("arguments", [[], ["--demo"]])
def test_new_env_fills_in_every_secret_and_leaves_a_file_that_is_there_alone(tmp_path, arguments):
    script = str(environment.PROJECT / "docker/new-env")
    variables = {"PATH": os.environ["PATH"], "ENV_FILE": str(tmp_path / ".env")}
    assert run([script, *arguments], variables).returncode == 0
    written = (tmp_path / ".env").read_text()
    values = dict(re.findall(r"^([A-Z_]+)=(.*)$", written, re.MULTILINE))
    empty = {name for name in SECRETS if not values[name]}
    assert empty == ({"PSP_URL"} if not arguments else set())
    made = [value for value in values.values() if re.fullmatch("[0-9a-f]{64}", value)]
    assert len(made) == len(set(made)) == 8
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert run([script], variables).returncode != 0
    assert (tmp_path / ".env").read_text() == written


def test_the_image_collects_the_files_that_the_shop_would(tmp_path):
    def collect(*settings: str, **variables: str) -> set[str]:
        words = [sys.executable, "-m", "django", "collectstatic", "--dry-run", "--no-input", "-v1"]
        paths = os.pathsep.join([str(environment.PROJECT), str(environment.PROJECT / "docker")])
        plain = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "SHOP_DEMO": "0", **variables}
        result = run([*words, *settings], {**plain, "SECRET_KEY": "only-for-this-test"})
        assert result.returncode == 0, result.stderr
        return set(re.findall(r"copy '(.*)'", result.stdout))

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
        run(words, {"PATH": path, "FLOWER_BASIC_AUTH": f"operator:{password}"})
        for password in ("", "a password")
    )
    assert (without.returncode, without.stdout) == (1, "")
    assert given.stdout.startswith("started: -A shop flower")


BLOCK = """
import importlib.metadata, re, sys
installed = {re.match(r"[\\w.-]+", line)[0].lower() for line in open("requirements/production.txt")
             if re.match(r"[\\w.-]+==", line)}
installed |= {"aiosmtpd", "fakeredis", "lupa", "sortedcontainers"}
blocked = {module for module, found in importlib.metadata.packages_distributions().items()
           if not installed & {re.sub(r"[-_.]+", "-", each).lower() for each in found}}

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is not in the image")

assert "psutil" in blocked and "django" not in blocked
sys.meta_path.insert(0, Block())
import django
from django.core.management import call_command
django.setup()
call_command("check")
"""


def test_the_demo_image_has_all_that_the_demo_imports(tmp_path):
    words = [sys.executable, "-c", BLOCK]
    variables = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "lab.settings",
        "SHOP_DEMO": "1",
        "SHOP_DATA": str(tmp_path),
    }
    done = run(words, variables)
    assert done.returncode == 0, done.stderr
