"""Settings that collect the static files and nothing else, for the image's layer before the code.

They name the same files as shop/settings.py; a test compares the two.
"""

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "signs nothing"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.staticfiles",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "drf_spectacular_sidecar",
]
STATICFILES_DIRS = [BASE_DIR / "shop" / "static", BASE_DIR / "shop" / "draws" / "static"]
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STORAGES = {
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
