# Two images: `shop` serves (web, Celery, beat, migrations), and `development` has the whole repository.
# docker-compose.yml builds the one that SHOP_TARGET names.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS base
# Fixed numbers, so that a volume's owner and group are known outside the container too.
RUN groupadd --system --gid 10001 shop \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin shop \
    && python -m pip uninstall --yes --quiet --root-user-action ignore pip \
    && rm -rf /usr/local/lib/python3*/ensurepip \
    && install -d -o shop -g shop /var/lib/shop
WORKDIR /shop
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM ${PYTHON_IMAGE} AS shop-packages
# 1: traces, error reports and Flower too.
ARG TELEMETRY=0
COPY requirements/production.txt requirements/telemetry.txt requirements/
RUN python -m venv --without-pip /venv \
    && python -m pip --python /venv/bin/python install --no-cache-dir -r requirements/production.txt \
    && if [ "$TELEMETRY" = 1 ]; then \
        python -m pip --python /venv/bin/python install --no-cache-dir -r requirements/telemetry.txt; \
    fi

# Before the code: static files are collected again only when one of them changes.
FROM shop-packages AS static
WORKDIR /shop
COPY docker/static_settings.py docker/
COPY shop/static shop/static
COPY shop/draws/static shop/draws/static
RUN /venv/bin/django-admin collectstatic --pythonpath docker --settings static_settings \
    --no-input --verbosity 0 --ignore redoc

FROM base AS shop
COPY --from=shop-packages /venv /venv
COPY --from=static /shop/staticfiles staticfiles
COPY manage.py gunicorn.conf.py ./
COPY docker/healthcheck docker/
COPY locking locking
COPY inventory inventory
COPY serving serving
COPY own own
COPY shop shop
ENV SHOP_DATA=/var/lib/shop \
    SHOP_BIND=0.0.0.0
USER shop
EXPOSE 8000
CMD ["gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"]

# Everything else of this repository, with its packages. SHOP_DEMO=1 switches development/ on; with 0
# this image serves as the other does.
FROM shop-packages AS development-packages
COPY requirements.txt .
RUN python -m pip --python /venv/bin/python install --no-cache-dir -r requirements.txt

FROM shop AS development
COPY --from=development-packages /venv /venv
COPY . .

# `docker build .` without a target builds what serves.
FROM shop
