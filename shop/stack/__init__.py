"""The processes of the demo: embedded servers, the shop, Celery and Locust.

`EmbeddedServers` are PostgreSQL and Valkey from wheels, shared by all commands of one data folder
and stopped by the last. `Stack` is what runs against them. Both are kept alive by supervisord.
"""

from shop.stack.embedded import EmbeddedServers, ServerUrls
from shop.stack.errors import PortTaken, ProcessFailed, StackError
from shop.stack.supervisor import Program, Supervisor

__all__ = [
    "EmbeddedServers",
    "PortTaken",
    "ProcessFailed",
    "Program",
    "ServerUrls",
    "StackError",
    "Supervisor",
]
