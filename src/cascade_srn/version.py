"""The version of the package, in a module that the build can read without importing the package."""

__version__ = "0.1.0"
