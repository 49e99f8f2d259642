"""The version of the distribution, read by pyproject.toml as well."""

__version__ = "0.5.0"
