"""EverShop as its installation guide says: built, then `evershop start`, which is one process."""

from loadtest.shops.setup import Setup

SETUP = Setup(
    # concat-stream: `multer` asks for it and does not bring it.
    node=("@evershop/evershop@2.2.1", "concat-stream@2.0.0"),
    steps=(("node", "seed.mjs"), ("{bin}/evershop", "build")),
    # Its children for events and jobs are stopped with everything else of this folder.
    serve={"web": ("{bin}/evershop", "start")},
    ready="/healthz",
    environment={
        "PORT": "{port}",
        "DB_HOST": "{db_host}",
        "DB_PORT": "{db_port}",
        "DB_NAME": "{db_name}",
        "DB_USER": "{db_user}",
        "DB_PASSWORD": "{db_password}",
        "DB_SSLMODE": "disable",
        "JWT_ADMIN_SECRET": "{secret}",
        "JWT_ADMIN_REFRESH_SECRET": "{secret}",
        "JWT_CUSTOMER_SECRET": "{secret}",
        "JWT_CUSTOMER_REFRESH_SECRET": "{secret}",
        "EVERSHOP_HOME_URL": "http://127.0.0.1:{port}",
        "TRUST_PROXY_HOPS": "1",  # its default: buyers come through one proxy
        "NODE_ENV": "production",
    },
)
