"""The Django project and the storefront."""
