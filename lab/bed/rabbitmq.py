"""RabbitMQ on several hosts, as Celery's broker; its quorum queues are declared by the workers."""

from __future__ import annotations

from development import StackError
from development.folder import kept_secret, write_private
from lab.bed.description import Place
from loadtest.faults.hosts import Host
from loadtest.faults.rabbitmq_hosts import PROGRAMS, Brokers, node

PORT = 5672

USER = "shop"

CONFIGURATION = """\
listeners.tcp.default = {port}
default_user = {user}
default_pass = {password}
loopback_users = none
cluster_formation.peer_discovery_backend = classic_config
{nodes}
# A node that loses the others stops serving instead of growing apart from them.
cluster_partition_handling = pause_minority
# Seconds until a silent node counts as down; the default is 60.
net_ticktime = 10
disk_free_limit.absolute = 10MB
log.console = true
log.file = false
"""


def rabbitmq(place: Place, host: Host) -> None:
    """Set a node up; all that start together form a cluster."""
    program = PROGRAMS / "rabbitmq-server"
    if not program.exists():
        raise StackError("rabbitmq-server is not installed; .ci/install-servers installs it.")
    folder = place.disk(host)
    configuration, plugins = folder / "rabbitmq.conf", folder / "plugins"
    nodes = enumerate(place.addresses("rabbitmq"), 1)
    text = CONFIGURATION.format(
        port=PORT,
        user=USER,
        password=_password(place),
        nodes="\n".join(
            f"cluster_formation.classic_config.nodes.{number} = {node(address)}"
            for number, address in nodes
        ),
    )
    write_private(configuration, text)
    plugins.write_text("[].")
    cookie = folder / ".erlang.cookie"
    write_private(cookie, kept_secret("rabbitmq-cookie", place.folder))
    cookie.chmod(0o400)  # or Erlang refuses it
    # Debian's own command switches to the system's user and folders; this program does not.
    environment = {
        "HOME": str(folder),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_NODENAME": node(host.address),
        "RABBITMQ_USE_LONGNAME": "true",
        "RABBITMQ_CONFIG_FILE": str(configuration),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        # Idle schedulers of three nodes would spin on the same processors.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
    }
    place.add(host, "rabbitmq", [str(program)], environment)


def url(place: Place) -> str:
    """Return the URLs of all nodes: Celery takes another one when one does not answer."""
    return ";".join(
        f"amqp://{USER}:{_password(place)}@{address}:{PORT}//"
        for address in place.addresses("rabbitmq")
    )


def ready(place: Place) -> bool:
    """Whether all nodes are one cluster."""
    return Brokers(place.hosts).settled()


def _password(place: Place) -> str:
    return kept_secret("rabbitmq-password", place.folder)
