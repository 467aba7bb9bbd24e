"""The course as a Django app: pages, and the commands `lesson` and `explore`."""

from django.apps import AppConfig


class CourseConfig(AppConfig):
    """Has no models."""

    name = "course"
