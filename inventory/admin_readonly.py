"""Base classes for Django's admin: rows that only services write."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class WrittenByServices:
    """Rows that only services write: all permissions to edit are denied."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False


class ReadOnly(WrittenByServices, admin.ModelAdmin):  # type: ignore[type-arg]
    """A page of rows that only services write."""

    show_full_result_count = False
