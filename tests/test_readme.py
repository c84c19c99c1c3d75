"""The README's Python runs as it stands, and what it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_code_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), "README.md", "exec"), {})
    assert "Reply with one of: Left, Down, Right, Up." in capsys.readouterr().out


def test_named_files_and_targets_exist() -> None:
    for name in re.findall(r"`(\w+)/`|^(\w+)/ ", README, re.MULTILINE):
        folder = next(filter(None, name))
        assert folder == "X" or (ROOT / folder).is_dir(), folder
    targets = set(re.findall(r"^(\S+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make (\w[\w-]*)", README)) <= targets
