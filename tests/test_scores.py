"""The reference scores: kept with the code, true to it, and used as a scale."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from turngym.envs import ENV_IDS, scores
from turngym.envs.scores import Reference, measure, normalized, reference, wilson_interval, write_scores

_SAMPLE = 100
_FRESH_SEED = 10_000_000
_Z = 4.0  # standard errors: a wrong figure is further away, chance hardly ever


def test_a_fresh_sample_agrees(env_id: str) -> None:
    stored, fresh = reference(env_id), measure(env_id, _SAMPLE, _FRESH_SEED)
    low, high = wilson_interval(round(fresh.random * _SAMPLE), _SAMPLE, _Z)
    assert low <= stored.random <= high
    assert fresh.oracle_method == stored.oracle_method
    if stored.oracle is not None:
        assert fresh.oracle is not None
        low, high = wilson_interval(round(fresh.oracle * _SAMPLE), _SAMPLE, _Z)
        assert low <= stored.oracle <= high


def test_the_file_is_well_formed(env_id: str) -> None:
    stored = reference(env_id)
    assert stored.random_interval[0] <= stored.random <= stored.random_interval[1]
    assert 0 <= stored.random_interval[0] <= stored.random_interval[1] <= 1
    assert stored.episodes >= 500
    assert stored.first_seed + stored.episodes <= _FRESH_SEED
    if stored.oracle is not None and stored.oracle_interval is not None:
        assert stored.oracle_interval[0] <= stored.oracle <= stored.oracle_interval[1]
        assert stored.oracle > stored.random


def test_the_file_holds_the_registered_environments_in_order() -> None:
    assert list(json.loads(scores.REFERENCE_FILE.read_text())) == ENV_IDS


def test_the_same_seeds_give_the_same_scores() -> None:
    assert measure("TextFrozenLake-v0", 30) == measure("TextFrozenLake-v0", 30)


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(ValueError, match=r"env_id must be one of TextFrozenLake-v0.*, got 'FrozenLake-v1'"):
        reference("FrozenLake-v1")
    with pytest.raises(ValueError, match="got 'Sudoku-v0'"):
        normalized("Sudoku-v0", 0.5)


def test_the_scale_runs_from_random_to_oracle(env_id: str) -> None:
    stored = reference(env_id)
    assert stored.oracle is not None
    assert normalized(env_id, stored.random) == 0
    assert normalized(env_id, stored.oracle) == 1
    assert math.isclose(normalized(env_id, (stored.random + stored.oracle) / 2), 0.5)
    with pytest.raises(ValueError, match=r"success must be between 0 and 1, got 50"):
        normalized(env_id, 50)


STORED = Reference(0.25, (0.2, 0.3), 0.75, (0.7, 0.8), "replay", 300, 0)


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scores, "REFERENCE_FILE", tmp_path / "scores.json")
    return tmp_path / "scores.json"


def test_scores_come_back_from_the_file(own_file: Path) -> None:
    write_scores({"B-v0": STORED}, own_file)
    without = dataclasses.replace(STORED, oracle=None, oracle_interval=None, oracle_method="none")
    write_scores({"A-v0": without, "C-v0": STORED}, own_file, order=["C-v0", "B-v0"])
    assert list(json.loads(own_file.read_text())) == ["C-v0", "B-v0", "A-v0"]
    assert (reference("A-v0"), reference("B-v0")) == (without, STORED)
    assert normalized("B-v0", 0.5) == 0.5
    with pytest.raises(ValueError, match=r"A-v0 has no scale: random 0\.25, oracle None"):
        normalized("A-v0", 0.5)
    with pytest.raises(ValueError, match=r"must be one of C-v0, B-v0, A-v0, got 'D-v0'"):
        reference("D-v0")


def test_a_failed_write_leaves_the_old_file(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scores({"B-v0": STORED}, own_file)
    before = own_file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(scores.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_scores({"B-v0": dataclasses.replace(STORED, random=0.0)}, own_file)
    assert own_file.read_bytes() == before
    assert [path.name for path in own_file.parent.iterdir()] == [own_file.name]


@pytest.mark.parametrize(
    ("successes", "count", "expected"),
    [
        (0, 10, (0.0, 0.277533)),  # 1.96² / (10 + 1.96²)
        (10, 10, (0.722467, 1.0)),
        (81, 263, (0.255256, 0.366210)),  # Newcombe 1998, Statistics in Medicine 17, table I, without correction
        (15, 148, (0.062387, 0.160551)),
    ],
)
def test_wilsons_interval(successes: int, count: int, expected: tuple[float, float]) -> None:
    assert wilson_interval(successes, count) == pytest.approx(expected, abs=1e-4)


def test_measuring_needs_an_episode() -> None:
    with pytest.raises(ValueError, match="episodes must be at least 1, got 0"):
        measure("TextFrozenLake-v0", 0)


class _Scripted:
    """An environment whose every episode ends with its first action: "win" wins."""

    spec = None

    def __init__(self, *, reward: float, value: float | None, oracle: str | None) -> None:
        self.reward, self.value, self.oracle = reward, value, oracle

    def get_wrapper_attr(self, name: str) -> object:
        hooks = {
            "random_action": lambda rng: "win" if rng.random() < 0.5 else "lose",
            "oracle_action": lambda: self.oracle,
            "oracle_value": lambda: self.value,
        }
        return hooks[name]

    def reset(self, *, seed: int) -> tuple[str, dict[str, object]]:
        return "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        won = action == "win"
        return "", self.reward * won, True, False, {"success": won}

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("env", "oracle", "method"),
    [
        (
            _Scripted(reward=1.0, value=0.9, oracle="win"),
            0.9,
            "value",
        ),  # the exact probability, not this episode's luck
        (_Scripted(reward=10.0, value=9.0, oracle="win"), 1.0, "replay"),  # a return that is no success probability
        (_Scripted(reward=1.0, value=None, oracle="win"), 1.0, "replay"),
        (_Scripted(reward=1.0, value=None, oracle="lose"), 0.0, "replay"),
        (_Scripted(reward=1.0, value=None, oracle=None), None, "none"),
    ],
)
def test_how_the_oracle_is_measured(
    env: _Scripted, oracle: float | None, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores.gymnasium, "make", lambda env_id, split: env if split == "test" else None)
    measured = measure("Scripted-v0", 50)
    assert (measured.oracle, measured.oracle_method) == (oracle, method)
    assert 0.2 < measured.random < 0.8
