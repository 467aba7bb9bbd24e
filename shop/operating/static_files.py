"""Static files: hashed and compressed where they were collected, else as they are in the code."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Does not need `collectstatic`, so that the shop starts from a checkout too."""

    def stored_name(self, name: str) -> str:
        """Return the name with its hash; without it if nothing was collected."""
        return str(super().stored_name(name)) if self.hashed_files else name
