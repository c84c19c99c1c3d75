"""Stable-Baselines3's PPO learns from the tabular view."""

import numpy as np
import pytest

sb3 = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 comes with the extra sb3")
torch = pytest.importorskip("torch")

from turngym.wrappers import make_sb3_env  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def success_rate(envs, choose, episodes=300):
    """Share of successes among the first `episodes` that end."""
    observations, ends = envs.reset(), []
    while len(ends) < episodes:
        observations, _, done, infos = envs.step(choose(observations))
        ends += [info["is_success"] for info, over in zip(infos, done, strict=True) if over]
    return float(np.mean(ends[:episodes]))


def learn(steps, learning_rate, gamma, **kwargs):
    """Success on test levels: of chance, and of PPO after so many steps on training levels."""
    train = make_sb3_env("TextFrozenLake-v0", 16, seed=0, planes=6, **kwargs)
    test = make_sb3_env("TextFrozenLake-v0", 16, seed=1, planes=6, split="test", **kwargs)
    rng = np.random.default_rng(0)
    chance = success_rate(test, lambda _: rng.integers(4, size=16))
    model = sb3.PPO(
        "MlpPolicy",
        train,
        n_steps=64,
        batch_size=512,
        n_epochs=8,
        learning_rate=learning_rate,
        gamma=gamma,
        ent_coef=0.01,
        seed=0,
        device="cpu",
    )
    model.learn(steps)
    return chance, success_rate(test, lambda boards: model.predict(boards, deterministic=True)[0])


def test_ppo_learns_small_lakes() -> None:
    chance, learned = learn(10_000, 3e-3, 0.9, size=3, ice_probability=0.95)
    assert chance < 0.5
    assert learned > 0.75


@pytest.mark.slow
def test_ppo_learns_the_default_lakes() -> None:
    chance, learned = learn(200_000, 2e-3, 0.95)
    assert chance < 0.3
    assert learned > 0.85


def test_environments_are_seeded_masked_and_counted() -> None:
    envs = make_sb3_env("TextFrozenLake-v0", 2, seed=7, max_turns=1)
    again = make_sb3_env("TextFrozenLake-v0", 2, seed=7, max_turns=1)
    boards = envs.reset()
    np.testing.assert_array_equal(boards, again.reset())
    assert (boards[0] != boards[1]).any()
    assert np.array(envs.env_method("action_masks")).shape == (2, 4)
    _, _, done, infos = envs.step([0, 0])
    assert done.all()
    assert all(info["episode"]["l"] == 1 and "is_success" in info for info in infos)
