"""The admin of users, as Django's own."""

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from shop.accounts.models import User

admin.site.register(User, UserAdmin)
