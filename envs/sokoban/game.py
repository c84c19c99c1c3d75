"""What the Sokoban environments have in common, whatever their levels and however replies are read."""

from typing import get_args

from turngym.envs import replies
from turngym.envs.sokoban import views
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.play import Reward
from turngym.envs.sokoban.thoughts import thought
from turngym.envs.sokoban.values import Budget, best_return, outlooks
from turngym.envs.splits import digest
from turngym.envs.text_env import TextEnv

MOST_MOVES_PER_TURN = 20
_RULES = (
    "Push every box onto a goal. A move into a box pushes it one step, but not into a wall or a box; nothing is pulled."
)


class Game:
    """How positions are shown and moves are paid, and what is best.

    Args:
        observation_format: One of `views.FORMATS`.
        reward: "gym_sokoban" or "sparse", see `play.earned`.
        moves_per_turn: The most moves in a reply, 1 to 20.
        invalid_penalty: Reward of a reply that cannot be read, at most 0.

    Raises:
        ValueError: If an argument is out of range; the message names it.
    """

    def __init__(self, *, observation_format: str, reward: Reward, moves_per_turn: int, invalid_penalty: float) -> None:
        if observation_format not in views.FORMATS:
            allowed = ", ".join(views.FORMATS)
            raise ValueError(f"observation_format must be one of {allowed}, got {observation_format!r}")
        if reward not in get_args(Reward):
            raise ValueError(f"reward must be one of {', '.join(get_args(Reward))}, got {reward!r}")
        if not 1 <= moves_per_turn <= MOST_MOVES_PER_TURN:
            raise ValueError(f"moves_per_turn must be between 1 and {MOST_MOVES_PER_TURN}, got {moves_per_turn}")
        if invalid_penalty > 0:
            raise ValueError(f"invalid_penalty must be at most 0, got {invalid_penalty}")
        self.observation_format, self.reward, self.moves_per_turn = observation_format, reward, moves_per_turn
        self.instructions = f"{_RULES} {views.legend(observation_format)} {replies.expected(moves_per_turn)}"
        self._idle = max(-0.1, invalid_penalty)
        self._shown: dict[Position, tuple[str, str]] = {}
        self._shown_of: Level | None = None

    def shown(self, level: Level, position: Position) -> tuple[str, str]:
        """A position as text, and the text's fingerprint; those of the level at hand are remembered."""
        if self._shown_of is not level:
            self._shown, self._shown_of = {}, level
        shown = self._shown.get(position)
        if shown is None:
            text = views.render(level, position, self.observation_format)
            shown = self._shown[position] = text, digest(text)
        return shown

    def best_moves(self, level: Level, position: Position, moves_left: int | None = None) -> tuple[int, ...]:
        """The moves of the next turn on the shortest solution that is known; none where there is no solution."""
        return outlooks(level)[position].moves[: self.moves_per_turn][:moves_left]

    def best_return(
        self, level: Level, position: Position, turns_left: int, moves_left: int | None = None
    ) -> float | None:
        """The highest sum of rewards in the turns and moves that are left; None where it is not known."""
        most = turns_left * self.moves_per_turn
        budget = Budget(turns_left, most if moves_left is None else min(most, moves_left), self._idle)
        return best_return(level, position, budget, self.reward)

    def is_unsolvable(self, level: Level, position: Position) -> bool | None:
        """Whether it is proved that a position has no solution; None if neither proof nor solution was found."""
        status = outlooks(level)[position].status
        return None if status == "gave_up" else status == "unsolvable"

    def thought(self, level: Level, position: Position, moves_left: int | None = None) -> str:
        """The reasoning behind `best_moves`; "" where there are none."""
        plan = outlooks(level)[position].moves[:moves_left]
        return thought(level, position, plan, self.moves_per_turn) if plan else ""


def regret(env: TextEnv, action: str) -> float | None:
    """What a reply costs against the best one: the best return from here, less its reward and the best from there.

    The environment is left as it was.

    Args:
        env: An environment without luck, in the middle of an episode.
        action: The reply.

    Returns:
        At least 0, 0 for a best reply; None where a best return is not known.
    """
    state, here = env.get_state(), env.oracle_value()
    reward, there = env.step(action)[1], env.oracle_value()
    env.set_state(state)
    return None if here is None or there is None else round(here - reward - there, 9)
