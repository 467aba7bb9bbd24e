"""The death of a supervised process is reported, and its return."""

import os
import signal

from development.tests.test_supervisor import SLEEPER, python, running, supervisor
from lab.stack.watch import News, Watch
from shop.tests.processes import wait_for

__all__ = ["supervisor"]


def test_a_killed_process_is_reported_with_its_log(supervisor):
    supervisor.start([python("sleeper", SLEEPER)], os.environ)
    wait_for(lambda: running(supervisor, "sleeper"))
    watch = Watch(supervisor)
    assert list(watch.news()) == []

    first = supervisor.state("sleeper").pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: supervisor.state("sleeper").pid not in {0, first})
    wait_for(lambda: running(supervisor, "sleeper"))

    died, back = watch.news()
    log = supervisor.log_file("sleeper")
    assert died == News(f"sleeper (pid {first}) died; its log: {log}")
    pid = supervisor.state("sleeper").pid
    assert back == News(f"sleeper is running again (pid {pid})", good=True)
    assert list(watch.news()) == []
