"""The credit lab of benchmarks/: what it calls the truth, on a bandit whose truth is known, and its figures by hand."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from turngym.agents import LLMPolicy, collect_rollout
from turngym.baselines.run import CommonArgs, prepare

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def credit(monkeypatch):
    """`benchmarks/credit.py`, which lies in no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import credit

    return credit


@pytest.fixture
def run(tmp_path):
    """An untrained policy before two arms: its replies can hardly be read, and cost the penalty."""
    args = CommonArgs(env_id="Bandit-v0", output_dir=tmp_path / "run", demonstrations="none", workers=1)
    return prepare(args, count=8)


def test_what_is_earned_after_a_reply(credit, run) -> None:
    env = run.envs["train"][0]
    env.reset(seed=0)
    state, arms = env.unwrapped.get_state(), env.unwrapped.legal_actions()
    best, expected = arms.index(env.unwrapped.oracle_action()), env.unwrapped.oracle_value()
    branches = [credit.Branch((1, 2, 3), 1, state, arm) for arm in arms]
    returns = credit.sampled_returns(run, branches, 400)
    assert returns.shape == (len(arms), 400)
    means = returns.mean(axis=1)
    assert means[best] == pytest.approx(expected, abs=0.15)
    assert means[best] == means.max()
    assert any(each.std() > 0 for each in returns)  # luck of their own: they share a state, and not what comes of it


def test_the_advantage_is_the_reply_less_what_the_policy_does(credit, run) -> None:
    trajectories = run.rollout("train", [3, 3, 4], temperature=1.0, seed=[0], noise_seeds=[5, 6, 7])
    for each, luck in zip(trajectories, (5, 6, 7), strict=True):
        each.luck = luck
    halves, variance = credit.true_advantages(run, trajectories, 8)
    assert halves.shape == (2, sum(each.turns for each in trajectories))
    assert variance.shape == halves.shape[1:]
    unread = [not each.infos[0]["action_is_valid"] for each in trajectories]
    assert all(unread)  # as nearly all replies of this policy are: none has an advantage
    assert abs(halves.mean(0)) == pytest.approx(0, abs=0.3)


def test_figures(credit) -> None:
    truth, nothing = np.array([1.0, -1.0, 2.0, -2.0]), np.zeros(4)
    halves = np.array([truth, truth])
    assert credit.figures(3 * truth, halves, nothing) == pytest.approx(
        {"correlation": 1, "sign": 1, "bias": 0, "noise": 0}
    )
    constant = credit.figures(np.ones(4), halves, nothing)
    assert constant == pytest.approx({"correlation": 0, "sign": 0.5, "bias": 0, "noise": 1})
    half_right = credit.figures(np.array([1.0, -1.0, -2.0, 2.0]), halves, nothing)
    assert half_right["correlation"] == pytest.approx((1 + 1 - 4 - 4) / 10)
    assert half_right["sign"] == 0.5


def test_the_truths_own_error_is_taken_out(credit) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000)
    halves = truth + rng.normal(size=(2, 4000))
    found = credit.figures(truth + rng.normal(size=4000), halves, np.full(4000, 0.5))
    assert found["correlation"] == pytest.approx(2**-0.5, abs=0.05)
    assert found["noise"] == pytest.approx(2**-0.5, abs=0.05)


def test_a_critic_is_fitted_to_returns(credit, run) -> None:
    episodes = run.rollout("train", list(range(16)), temperature=1.0, seed=[0])
    credit.fit_critic(run.model, episodes)
    again = run.rollout("train", list(range(16)), temperature=1.0, seed=[0])
    said = np.concatenate([[each.values[at] for at in each.policy_positions()] for each in again])
    earned = np.concatenate([np.full(sum(each.policy_mask), each.episode_return) for each in again])
    assert abs(said - earned).mean() < abs(earned - earned.mean()).mean() + 0.05


def test_an_episode_that_is_rejoined_goes_on_alike(run) -> None:
    env_id = "turngym:TextFrozenLake-v0"
    policy = LLMPolicy(run.model, temperature=0.0, max_new_tokens=3)
    (whole,) = collect_rollout(policy, [gymnasium.make(env_id, max_turns=4)], [0])
    env = gymnasium.make(env_id, max_turns=4)
    env.reset(seed=0)
    replies = [run.model.decode(ids) for ids in whole.replies()]
    for reply in replies[:2]:
        env.step(reply)
    policy.reset([], [])
    policy.rejoin(0, whole.ids[: whole.turn_id.index(2)], turn=2)
    policy.reply(0)
    policy.rejoin(1, whole.ids[: whole.turn_id.index(3)], turn=3)
    policy.reply(1)
    written: dict[int, str] = {}
    while len(written) < 2:
        written |= policy.advance()
    assert written == {0: replies[2], 1: replies[3]}
    assert policy.trajectories[0].policy_positions()[0] == whole.turn_id.index(2)
