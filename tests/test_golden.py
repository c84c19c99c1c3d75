"""What the environments say, word for word."""

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest

GOLDEN = Path(__file__).parent / "golden"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rewrite", GOLDEN / "rewrite.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()


@pytest.mark.parametrize("name", SCRIPT.EPISODES)
def test_transcript_is_as_it_was(name: str) -> None:
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert SCRIPT.transcript(SCRIPT.EPISODES[name]) == golden, "if this was meant, run python tests/golden/rewrite.py"


def test_every_file_has_its_episode() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(SCRIPT.EPISODES)


def test_the_transcript_in_the_docstring_is_real(env_id: str) -> None:
    docstring = type(gymnasium.make(env_id).unwrapped).__doc__
    assert docstring is not None
    transcript = re.search(r"## Transcript\n    ```\n(.*?)    ```\n", docstring, re.DOTALL)
    assert transcript is not None
    test = doctest.DocTestParser().get_doctest(transcript.group(1), {}, env_id, None, 0)
    assert len(test.examples) > 3
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert result.failed == 0, "".join(told)
