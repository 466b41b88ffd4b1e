"""The one place that holds the version; packaging and `kafkarec.__version__` both read it."""

__version__ = "0.2.0"
