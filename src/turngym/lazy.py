"""Imports on demand: packages that export without loading, and extras that say how they are installed."""

from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_exports(package: str, exports: dict[str, str], name: str) -> Any:
    """The body of a package's `__getattr__`: import the module that defines `name` when it is first asked for."""
    if name not in exports:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(exports[name]), name)


def require(module: str, extra: str) -> ModuleType:
    """Import a module that comes with an extra.

    Raises:
        ImportError: If it is not installed; the message is the line that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        raise ImportError(f'{module} is not installed: run  pip install "turngym[{extra}]"') from error
