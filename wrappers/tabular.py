"""Numbers instead of texts: a board and a numbered choice, for learners that do not read."""

from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsInt

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

Board = NDArray[np.int8]
_CODE_LIMITS = np.iinfo(np.int8)


class TabularWrapper(gymnasium.Wrapper[Board, SupportsInt, str, str], RecordConstructorArgs):
    """A text environment as a classic one: `Box` of the board, `Discrete` over a fixed list of replies.

    The board is what the environment's `as_array` gives; its feedback and its counters are not part of it.

    Args:
        env: A text environment with the hooks `as_array` and `legal_actions`. Its boards must all have one shape.
        actions: The replies to choose from, in order. By default those that are legal at the start of the episode of
            seed 0, which is right where the same replies are always legal.
        planes: How many codes cells have. Given, the observation has one 0/1 plane for each code, shape
            `(planes, *board)`, which networks learn from more easily than from codes; else the codes, shape `board`.

    Raises:
        ValueError: If there are no replies to choose from, or `planes` is not positive; at `reset` and `step`, if a
            cell has a code that has no plane.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], actions: Sequence[str] | None = None, planes: int | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, actions=actions, planes=planes)
        gymnasium.Wrapper.__init__(self, env)  # type: ignore[misc]  # its signature asks for the outer types
        if planes is not None and planes < 1:
            raise ValueError(f"planes must be at least 1 or None, got {planes}")
        env.reset(seed=0)  # the same list in the same order, whichever instance is asked
        self.actions = tuple(actions if actions is not None else env.get_wrapper_attr("legal_actions")() or ())
        if not self.actions:
            raise ValueError(f"{env} does not list its legal actions: give TabularWrapper the actions to choose from")
        self.planes = planes
        low, high = (_CODE_LIMITS.min, _CODE_LIMITS.max) if planes is None else (0, 1)
        self.observation_space = spaces.Box(low, high, self._board().shape, np.int8)
        self.action_space: spaces.Space[SupportsInt] = spaces.Discrete(len(self.actions))
        env.reset(seed=int(np.random.SeedSequence().generate_state(1)[0]))  # a seed of its own again

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Board, dict[str, Any]]:
        """Begin an episode."""
        _, info = self.env.reset(seed=seed, options=options)
        return self._board(), info

    def step(self, action: SupportsInt) -> tuple[Board, SupportsFloat, bool, bool, dict[str, Any]]:
        """Give the reply with this number.

        Raises:
            ValueError: If there is no such reply.
        """
        number = int(action)
        if not 0 <= number < len(self.actions):
            raise ValueError(f"action must be between 0 and {len(self.actions) - 1}, got {number}")
        _, reward, terminated, truncated, info = self.env.step(self.actions[number])
        return self._board(), reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Which replies are legal now, `(actions,)`; all of them where the environment does not list any."""
        legal = self.env.get_wrapper_attr("legal_actions")()
        return np.array([legal is None or action in legal for action in self.actions], np.bool_)

    def oracle_action(self) -> int | None:
        """The number of a best reply, or None where it is not among those to choose from."""
        action = self.env.get_wrapper_attr("oracle_action")()
        return self.actions.index(action) if action in self.actions else None

    def random_action(self, rng: np.random.Generator) -> int:
        """A number drawn uniformly from the legal ones."""
        return int(rng.choice(np.flatnonzero(self.action_masks())))

    def _board(self) -> Board:
        codes = np.array(self.env.get_wrapper_attr("as_array")(), np.int8)
        if self.planes is None:
            return codes
        if codes.min() < 0 or codes.max() >= self.planes:
            raise ValueError(f"planes must cover codes {codes.min()} to {codes.max()}, got planes={self.planes}")
        planes: Board = (codes == np.arange(self.planes).reshape(-1, *[1] * codes.ndim)).astype(np.int8)
        return planes
