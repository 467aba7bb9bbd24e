# One image for web, Celery, beat, migrations and Locust; the command says which.
FROM python:3.13-slim AS build
RUN python -m venv /venv
COPY requirements.txt .
RUN /venv/bin/pip install --no-cache-dir -r requirements.txt

FROM python:3.13-slim
# A fixed number, so that a volume's owner is known outside the container too.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin shop
COPY --from=build /venv /venv
WORKDIR /shop
COPY . .
# SHOP_DEMO=0: nothing may start an embedded server or accept a made-up secret in here.
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=shop.settings \
    SHOP_DEMO=0 \
    SHOP_DATA=/tmp/shop \
    SHOP_BIND=0.0.0.0
RUN python manage.py collectstatic --no-input --verbosity 0
USER shop
EXPOSE 8000
CMD ["gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"]
