"""Levels and splits: the same in every process, and apart from each other."""

import json
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.__main__ import main
from turngym.envs import ENV_IDS, grid
from turngym.envs.overlap import measure_overlap
from turngym.envs.splits import SPLITS, check_split, digest, split_of
from turngym.envs.text_env import TextEnv

_LEVELS = """
import gymnasium, json, turngym
from turngym.envs.errors import SandboxError
def level(env_id, split, seed):
    env = gymnasium.make(env_id, split=split)
    observation, info = env.reset(seed=seed)
    try:
        return observation, info, env.step(env.unwrapped.random_action(env.np_random))
    except SandboxError as error:  # a machine that can run no program; the level is the same all the same
        return observation, info, str(error)
asked = [(split, seed) for split in ("train", "validation", "test") for seed in (0, 7)]
print(json.dumps([level(env_id, *one) for env_id in turngym.envs.ENV_IDS for one in asked]))
"""


def test_levels_do_not_depend_on_the_process(run_python: Callable[..., str]) -> None:
    one, other = (run_python("-c", _LEVELS, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == other
    assert len(json.loads(one)) == 6 * len(ENV_IDS)


def test_no_level_is_in_two_splits(env_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["overlap", env_id, "--levels", "60"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("levels shared by")]
    assert len(lines) == 3
    task = gymnasium.make(env_id).unwrapped
    assert isinstance(task, TextEnv)
    if not task.shared_splits:
        assert [line.rsplit(": ")[1] for line in lines] == ["0", "0", "0"]


def test_levels_belong_to_the_split_that_was_asked_for(env_id: str) -> None:
    for split in SPLITS:
        env = gymnasium.make(env_id, split=split)
        task = env.unwrapped
        assert isinstance(task, TextEnv)
        for seed in range(10):
            env.reset(seed=seed)
            assert task.shared_splits or split_of(task._canonical(task._level)) == split


def test_an_environment_that_ignores_its_split_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextEnv, "_draw_level", lambda env: env._generate(env.np_random))
    assert all(count > 0 for count in measure_overlap("TextFrozenLake-v0", 300).shared.values())
    assert main(["overlap", "TextFrozenLake-v0", "--levels", "300"]) == 1


def test_shares_of_the_splits() -> None:
    drawn = [split_of(f"level {index}") for index in range(10_000)]
    shares = {split: drawn.count(split) / len(drawn) for split in SPLITS}
    assert shares == pytest.approx({"train": 0.8, "validation": 0.1, "test": 0.1}, abs=0.02)


def test_fingerprints_never_change() -> None:
    """A changed hash moves levels between splits, so that what was trained on becomes what is tested on."""
    assert digest("level") == "1cc7b7c5f44e60ef"
    owners = {"train": (0, 1, 2, 4), "validation": (3, 19, 23, 31), "test": (12, 25, 32, 39)}
    for split, indices in owners.items():
        assert {split_of(f"level {index}") for index in indices} == {split}


def test_a_split_has_a_name() -> None:
    with pytest.raises(ValueError, match="split must be one of train, validation, test, got 'dev'"):
        check_split("dev")


squares = st.integers(2, 6).flatmap(lambda size: st.lists(st.sampled_from("_OSG#"), min_size=size**2, max_size=size**2))


def views(cells: str) -> set[str]:
    """The eight orientations, by NumPy."""
    size = int(len(cells) ** 0.5)
    square = np.array(list(cells)).reshape(size, size)
    turned = [np.rot90(square, turns) for turns in range(4)]
    return {"".join(view.ravel()) for square in turned for view in (square, np.fliplr(square))}


@given(squares.map("".join))
def test_the_canonical_form_is_that_of_all_eight_orientations_and_one_of_them(cells: str) -> None:
    size, orientations = int(len(cells) ** 0.5), views(cells)
    canonical = grid.canonical(cells, size)
    assert {grid.canonical(view, size) for view in orientations} == {canonical}
    assert canonical in orientations, "else two different levels could share a form"
