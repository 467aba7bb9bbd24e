"""Celery on both brokers: work done, returned and repeated; sweeps; dead messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from socket import SHUT_RDWR

import pytest
from celery import Celery
from celery.beat import SchedulingError
from django.db import connection
from kombu import Queue
from redis import Redis

import shop.draws.tasks  # noqa: F401  # registers it, as the worker does
from development.needs import needs
from development.processes import Worker
from development.servers import RabbitMQ, free_port
from inventory.hooks import hooks
from inventory.tests.helpers import counted, outsider
from shop.background import beat, config, follow_up, sending, tasks
from shop.background.config import QUEUES
from shop.celery import app
from shop.orders.models import Order
from shop.tests.catalogue import a_sale, an_order, mail, sent
from shop.tests.processes import on_test_database, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

ON_RABBITMQ = [pytest.mark.long, needs(RabbitMQ.need)]  # it takes seconds to start


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[str]:
    with RabbitMQ() as server:
        yield server.endpoint


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=ON_RABBITMQ)])
def broker(request: pytest.FixtureRequest) -> str:
    if request.param == "rabbitmq":
        return str(request.getfixturevalue("rabbitmq"))
    address = os.environ["CELERY_BROKER_URL"]
    Redis.from_url(address).flushdb()
    return address


@pytest.fixture(autouse=True)
def no_notifications(monkeypatch):
    """Keep the queues free of tasks that the test does not send."""
    monkeypatch.setattr(hooks, "written", bool)


def ask_for(task: str, broker: str) -> None:
    """Send a task as a notification does, through another broker than this process's own."""
    with Celery(set_as_current=False) as other:
        other.config_from_object(config)
        # Declared by the worker: their type is that of the broker.
        queues = [Queue(name, no_declare=True) for name in QUEUES]
        other.conf.update(broker_read_url=broker, broker_write_url=broker, task_queues=queues)
        other.send_task(task)


@contextmanager
def stuck(order: Order) -> Iterator[None]:
    """Block the follow-up of an order: another session is writing the same row."""
    with outsider() as other:
        other.execute("BEGIN")
        other.execute(
            "INSERT INTO inventory_outboxmessage (topic, key, payload)"
            " VALUES ('mails.confirmation', %s, '{}')",
            [str(order.pk)],
        )
        yield
        other.execute("ROLLBACK")


def somebody_is_stuck() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND query LIKE '%inventory_outboxmessage%'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.long
def test_task_whose_process_is_killed_is_run_again(broker):
    order = an_order(a_sale())
    with Worker(broker, on_test_database()) as one:
        with stuck(order):
            ask_for("shop.follow_up", broker)
            wait_for(somebody_is_stuck)
            for child in one.children():
                os.kill(child, signal.SIGKILL)
            wait_for(lambda: b"WorkerLostError" in one.log.read_bytes())
        wait_for(lambda: sent(order))


@pytest.mark.long
def test_worker_that_stops_hands_back_unfinished_tasks(broker):
    order = an_order(a_sale())
    with stuck(order), Worker(broker, on_test_database()) as one:
        ask_for("shop.follow_up", broker)
        wait_for(somebody_is_stuck)
        assert one.process is not None
        one.process.send_signal(signal.SIGQUIT)
        one.process.wait(30)
        assert b"Initiating Soft Shutdown" in one.log.read_bytes()
    assert not mail(order).exists()
    with Worker(broker, on_test_database()):  # no task is sent
        wait_for(mail(order).exists)


def test_tasks_are_json_and_have_a_queue_with_workers():
    assert app.conf.accept_content == ["json"]
    ours = {name for name in app.tasks if name.startswith("shop.")}
    assert ours == set(config.task_routes)
    declared = {queue.name for queue in config.task_queues}
    assert {route["queue"] for route in config.task_routes.values()} == declared
    assert set(QUEUES) == declared
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} == ours
    with pytest.raises(Exception, match="nowhere"):
        tasks.follow_up.apply_async(queue="nowhere")


def test_task_is_not_given_to_a_second_worker_while_it_may_run():
    assert app.conf.task_soft_time_limit < app.conf.task_time_limit < config.VISIBILITY
    for place in (app.conf.broker_transport_options, app.conf.result_backend_transport_options):
        assert place["visibility_timeout"] == config.VISIBILITY
    assert app.conf.visibility_timeout == config.VISIBILITY


def test_task_has_no_times_by_the_senders_clock(monkeypatch):
    sent = []
    monkeypatch.setattr(app.amqp, "send_task_message", lambda *message, **_: sent.append(message))
    monkeypatch.setattr(sending, "waiting", lambda *_: 0)
    for name in config.task_routes:
        sending.ask_for(app.tasks[name])
    for entry in app.conf.beat_schedule.values():
        app.send_task(entry["task"], **entry["options"])
    times = [(message.headers["expires"], message.headers["eta"]) for _, _, message in sent]
    assert times == [(None, None)] * 2 * len(config.task_routes)


@pytest.fixture
def queue_of():
    """Return a function that tells how many tasks wait in a queue of the empty broker."""
    broker = Redis.from_url(os.environ["CELERY_BROKER_URL"])
    broker.flushdb()
    yield lambda name: int(broker.llen(name))
    broker.flushdb()


def test_tasks_without_a_worker_do_not_pile_up(queue_of, tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "ENOUGH_TO_CONTINUE", 3)
    monkeypatch.setattr(beat, "ENOUGH_SWEEPS", 5)
    for _ in range(4):
        assert sending.ask_for(tasks.follow_up)
    assert queue_of("followup") == 3
    scheduler = beat.Beat(app, schedule_filename=str(tmp_path / "schedule"))
    for name in ("shop.follow_up", "shop.send_mails"):
        for _ in range(8):
            scheduler.apply_entry(scheduler.schedule[name], producer=scheduler.producer)
    assert (queue_of("followup"), queue_of("mail")) == (5, 5)


@pytest.mark.long
@needs(RabbitMQ.need)
def test_beat_sends_again_after_its_rabbitmq_connection_was_lost(rabbitmq, tmp_path):
    with Celery(set_as_current=False) as other:
        other.config_from_object(config)
        url, queue = rabbitmq, Queue("planted", auto_delete=True)
        other.conf.update(
            broker_read_url=url, broker_write_url=url, task_queues=[queue], task_routes={}
        )
        scheduler = beat.Beat(other, schedule_filename=str(tmp_path / "schedule"))
        sweep = scheduler.schedule["shop.follow_up"]

        def send(*, retry: bool) -> None:
            sweep.options |= {"queue": "planted", "retry": retry}
            scheduler.apply_async(sweep, producer=scheduler.producer)

        def lose_connection() -> None:
            scheduler.connection.connection.transport.sock.shutdown(SHUT_RDWR)

        send(retry=True)
        lose_connection()
        send(retry=True)
        lose_connection()
        with pytest.raises(SchedulingError):
            send(retry=False)
        scheduler.connection.collect()
        with other.connection_for_read() as connection:
            assert queue(connection.default_channel).queue_declare().message_count == 2


def test_rabbitmq_has_quorum_queues_and_a_beat_that_retries():
    program = (
        "from shop.background import config;"
        "print({str(queue.queue_arguments) for queue in config.task_queues},"
        " {each['options']['retry'] for each in config.beat_schedule.values()})"
    )
    variables = {**os.environ, "CELERY_BROKER_URL": "amqp://one//;amqp://two//"}
    output = subprocess.check_output([sys.executable, "-c", program], env=variables, text=True)
    assert output == """{"{'x-queue-type': 'quorum'}"} {True}\n"""


# --- What fails ------------------------------------------------------------------------------


def test_mails_wait_while_the_mail_server_is_unreachable(settings, caplog):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    order = an_order(a_sale())
    before = counted("shop_mails_total")
    follow_up.follow_up()
    unsent = mail(order).get()
    assert (unsent.done, unsent.attempts, unsent.error) == (None, 0, "")
    assert counted("shop_mails_total") == before + 1
    assert "mail server does not answer" in caplog.text
