"""The one place that holds the version; packaging and `kafkarec.__version__` both read it."""

__version__ = "0.1.0"
