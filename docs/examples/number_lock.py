"""An environment of your own in one file: open a lock by its hints.

Train on it from this folder (or with this folder on PYTHONPATH):

    python ../../baselines/ppo_llm.py --env-id number_lock:NumberLock-v0 --quick

and see whether it keeps the contract:

    python -m turngym check number_lock:NumberLock-v0
"""

from typing import Any

import numpy as np
from gymnasium.envs.registration import register

from turngym.envs.actions import ParseError, parse_moves
from turngym.envs.text_env import Event, TextEnv

_DIGITS = {str(digit): digit for digit in range(10)}


class NumberLockEnv(TextEnv):
    """Find a digit; every wrong guess is told to be too low or too high."""

    metadata = {**TextEnv.metadata, "render_modes": ["ansi"]}  # noqa: RUF012  # as Gymnasium; it draws no image
    shared_splits = True  # ten levels are too few to be told apart

    def __init__(self, *, max_turns: int | str = 4, **kwargs: Any) -> None:
        super().__init__(max_turns=max_turns, **kwargs)
        self.instructions = "A lock opens with one digit. Reply with one of: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9."

    def _generate(self, rng: np.random.Generator) -> int:
        return int(rng.integers(10))

    def _canonical(self, level: int) -> str:
        return str(level)

    def _optimum(self, level: int) -> int:
        return 1

    def _first_board(self, level: int) -> tuple[int, int]:
        return 0, 9  # where the digit can still be

    def _parse(self, action: str) -> tuple[int, ...] | ParseError:
        return parse_moves(action, _DIGITS, 1)

    def _expected(self) -> str:
        return "Reply with one digit."

    def _apply(self, parsed: tuple[int, ...]) -> Event:
        (guess,), (low, high) = parsed, self._board
        if guess == self._level:
            self._board = guess, guess
            return Event(1.0, "It is open.", terminated=True, success=True, moves=1)
        self._board = (max(low, guess + 1), high) if guess < self._level else (low, min(high, guess - 1))
        return Event(feedback="Too low." if guess < self._level else "Too high.", moves=1)

    def _describe(self) -> str:
        return f"{self._board[0]} - {self._board[1]}"

    def oracle_action(self) -> str | None:
        """Halve what is left."""
        return None if self._over else str(sum(self._board) // 2)

    def random_action(self, rng: np.random.Generator) -> str:
        """Any digit."""
        return str(rng.integers(10))

    def legal_actions(self) -> list[str] | None:
        """All digits."""
        return list(_DIGITS)


register("NumberLock-v0", entry_point="number_lock:NumberLockEnv")
