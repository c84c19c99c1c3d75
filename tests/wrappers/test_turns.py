import gymnasium
import pytest

from turngym.envs import check_text_env
from turngym.envs.frozen_lake import TextFrozenLakeEnv
from turngym.wrappers import TurnBudgetWrapper


class WithMoves(TextFrozenLakeEnv):
    """A lake in which moves are limited too."""

    def __init__(self) -> None:
        super().__init__(moves_per_turn=3)
        self.max_moves = 4


def test_counts_down_at_the_top_and_leaves_the_board_alone() -> None:
    env, plain = (
        TurnBudgetWrapper(gymnasium.make("TextFrozenLake-v0", max_turns=3)),
        gymnasium.make("TextFrozenLake-v0"),
    )
    observation, info = env.reset(seed=5)
    bare, expected = plain.reset(seed=5)
    assert observation == f"3 turns left.\n{bare}"
    assert info == expected
    for line in ("2 turns left.", "1 turn left.", "0 turns left."):
        observation, reward, _, truncated, info = env.step("nonsense")
        bare, plain_reward, _, _, expected = plain.step("nonsense")
        assert observation == f"{line}\n{bare}"
        assert (reward, info) == (plain_reward, expected)
    assert truncated


def test_counts_moves_where_they_are_limited() -> None:
    env = TurnBudgetWrapper(WithMoves())
    assert env.reset(seed=3)[0].startswith("12 turns left, 4 moves left.\n")
    action = next(move for move in ("Left", "Down", "Right", "Up") if not _ends(env, f"{move} || {move} || {move}"))
    assert env.step(f"{action} || {action} || {action}")[0].startswith("11 turns left, 1 move left.\n")


def _ends(env, action):
    state = env.get_wrapper_attr("get_state")()
    *_, terminated, truncated, _ = env.step(action)
    env.set_state(state)
    return terminated or truncated


def test_keeps_the_contract_and_can_be_rebuilt() -> None:
    env = TurnBudgetWrapper(gymnasium.make("TextFrozenLake-v0"))
    check_text_env(env)
    assert gymnasium.make(env.spec).reset(seed=1)[0] == env.reset(seed=1)[0]


def test_every_environment_tells(env_id: str) -> None:
    env = TurnBudgetWrapper(gymnasium.make(env_id))
    observation, _ = env.reset(seed=0)
    assert observation.startswith(f"{env.get_wrapper_attr('turns_left')} turn")
    env.close()


def test_names_the_hook_that_an_environment_lacks() -> None:
    class Endless(gymnasium.Env):
        def reset(self, *, seed=None, options=None):
            return "", {}

    with pytest.raises(AttributeError, match="turns_left"):
        TurnBudgetWrapper(Endless()).reset()
