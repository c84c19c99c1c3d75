"""The layers import one way, and every package is packaged."""

import ast
import configparser
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYERS = ("envs", "wrappers", "agents", "baselines")  # each may import itself and what stands before it
ROOT = Path(__file__).resolve().parents[1]
SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
SOURCES += sorted((ROOT / "src").rglob("*.py"))


def layer_of(path: Path) -> str:
    """The layer that a file belongs to; the root package is "turngym"."""
    first = path.relative_to(ROOT).parts[0]
    return "turngym" if first == "src" else first


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            if node.module == "turngym":
                yield from (f"turngym.{alias.name}" for alias in node.names)
            else:
                yield node.module


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    mine = layer_of(path)
    allowed = {"envs"} if mine == "turngym" else set(LAYERS[: LAYERS.index(mine) + 1])
    for module in imported(ast.parse(path.read_text())):
        assert module.split(".")[0] not in LAYERS, f"say turngym.{module}"
        parts = module.split(".")
        if parts[0] == "turngym" and len(parts) > 1 and parts[1] in LAYERS:
            assert parts[1] in allowed, f"{mine} imports {module}"


@pytest.mark.parametrize("path", [path for path in SOURCES if layer_of(path) in ("envs", "turngym")], ids=name_of)
def test_the_core_needs_numpy_and_gymnasium_alone(path: Path) -> None:
    tree = ast.parse(path.read_text())
    at_import = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    for module in imported(at_import):
        package = module.split(".")[0]
        assert package in {"numpy", "gymnasium", "turngym"} or package in sys.stdlib_module_names, module


def test_every_package_is_listed() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    options = config["options"]
    places = dict(line.split(" = ") for line in options["package_dir"].strip().splitlines())
    listed = set(options["packages"].split())
    folders = {path.parent for layer in (*LAYERS, "src") for path in (ROOT / layer).rglob("__init__.py")}

    def folder(package: str) -> Path:
        """The longest prefix that is mapped decides, as in setuptools."""
        parts, rest = package.split("."), []
        while ".".join(parts) not in places:
            rest.insert(0, parts.pop())
        return ROOT.joinpath(places[".".join(parts)], *rest)

    assert {folder(package) for package in listed} == folders
