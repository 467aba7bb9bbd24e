"""django-oscar behind gunicorn, set up as its "Building your own shop" and oscarapi's page say."""

from loadtest.shops.setup import Setup

GUNICORN = ("{bin}/gunicorn", "--no-control-socket", "-b", "127.0.0.1:{port}", "-w", "{workers}")
GUARD = "{repository}/examples/oscar:{repository}"

SETUP = Setup(
    python=(
        "django-oscar==4.2.1",
        "django-oscar-api==3.3.0",
        "gunicorn==27.0.1",
        "psycopg[binary,pool]==3.3.9",
        "prometheus-client==0.26.0",  # this and Redis's client: what the guarded row imports
        "redis==8.1.0",
    ),
    steps=(
        ("env", "GUARDED=1", f"PYTHONPATH={GUARD}", "{python}", "manage.py", "migrate", "-v0"),
        ("{python}", "manage.py", "shell", "-v0", "-c", "import seed"),
    ),
    serve={"web": (*GUNICORN, "--timeout", "60", "wsgi")},
    ready="/api/",
    environment={
        "DB_NAME": "{db_name}",
        "DB_USER": "{db_user}",
        "DB_PASSWORD": "{db_password}",
        "DB_HOST": "{db_host}",
        "DB_PORT": "{db_port}",
        "SECRET_KEY": "{secret}",
    },
    rows={"guarded": {"GUARDED": "1", "PYTHONPATH": GUARD}},
)
