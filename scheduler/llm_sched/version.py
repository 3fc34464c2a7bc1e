"""The version, for those below the package's front."""

__version__ = "0.1.0"
