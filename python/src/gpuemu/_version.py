"""The version of the package and of the binaries that its wheel carries."""

__version__ = "0.2.0"
