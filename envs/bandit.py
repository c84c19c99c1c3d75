"""Bandit: two arms, one safe and one risky, told apart by name; a pull ends the episode."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs.actions import ParseError
from turngym.envs.splits import Split
from turngym.envs.text_env import Event, TextEnv

ARMS = ("Dragon", "Phoenix")
_BY_NAME = {arm.lower(): arm for arm in ARMS}
_EXPECTED = f"Reply with one of: {', '.join(ARMS)}."

Level = tuple[str, str]
"""The arms in the order in which they are shown."""


class BanditEnv(TextEnv):
    """Pull one of two arms.

    ## Description
    One arm pays `low_reward` always, the other, risky one pays 1 with probability `high_probability` and else 0, which
    is more on average. Nothing but experience says which of the two names is the risky one: Dragon in `Bandit-v0`,
    Phoenix in `BanditReversed-v0`. A language model may expect one of them to be, so the pair shows whether learning
    overcomes a prejudice. The rules are those of RAGEN's two-armed bandit (arXiv:2504.20073; the paper's low arm pays
    0.15). Here names are shown with a capital letter, and the reply is judged by our grammar.

    ## Action Space
    A text: `Dragon` or `Phoenix`, in any case. Everything else is unreadable: nothing is pulled, the turn counts, the
    reward is `invalid_penalty`.

    ## Observation Space
    A text: a line of feedback once something happened, then both arms in the order of the level, with ` *` behind the
    one that was pulled.

    ## Starting State
    Two levels exist, Dragon shown first or Phoenix, equally likely. They are mirror images of each other and so the
    same level by what `TextEnv` calls a level; all splits hold both (`shared_splits` is True), and a score on the test
    split is no sign of generalisation.

    ## Rewards
    What the arm pays, or `invalid_penalty`.

    ## Episode End
    Terminated by a pull, and after `max_turns` turns without one: with the only turn gone there is nothing to go on
    with.

    ## Information
    As in `TextEnv`; `success` is True where the risky arm was pulled, whatever it paid. `oracle_value` is exact: the
    risky arm's mean.

    ## Arguments
    `risky` ("Dragon" or "Phoenix"), `low_reward` and `high_probability` (0 <= low < high <= 1), and those of `TextEnv`;
    `max_turns` is 1 unless given.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("Bandit-v0")
    >>> observation, info = env.reset(seed=10)
    >>> print(observation)
    Phoenix | Dragon
    >>> observation, reward, terminated, truncated, info = env.step("dragon")
    >>> print(observation)
    Dragon paid 1.
    Phoenix | Dragon *
    >>> reward, terminated, info["success"]
    (1.0, True, True)
    ```

    ## Version History
    - v0: first release.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  # as Gymnasium
    shared_splits = True
    limit_terminates = True

    def __init__(
        self,
        *,
        risky: str = "Dragon",
        low_reward: float = 0.1,
        high_probability: float = 0.25,
        max_turns: int | str = 1,
        split: Split = "train",
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        if risky not in ARMS:
            raise ValueError(f"risky must be one of {', '.join(ARMS)}, got {risky!r}")
        if not 0 <= low_reward < high_probability <= 1:
            raise ValueError(
                "low_reward must be at least 0 and below high_probability, which is at most 1, "
                f"got low_reward={low_reward} and high_probability={high_probability}"
            )
        self.risky, self.low_reward, self.high_probability = risky, low_reward, high_probability
        self.instructions = (
            "You can pull one of two arms, shown side by side. Each pays a reward in its own way. "
            f"Pull the one that pays more on average. {_EXPECTED}"
        )

    def _generate(self, rng: np.random.Generator) -> Level:
        first = int(rng.integers(2))
        return ARMS[first], ARMS[1 - first]

    def _canonical(self, level: Level) -> str:
        return " ".join(sorted(level))

    def _optimum(self, level: Level) -> int:
        return 1

    def _first_board(self, level: Level) -> str:
        return ""  # the arm that was pulled

    def _parse(self, action: str) -> str | ParseError:
        return _BY_NAME.get(action.strip().lower()) or ParseError("I could not read an arm.")

    def _expected(self) -> str:
        return _EXPECTED

    def _apply(self, parsed: str) -> Event:
        assert self._noise is not None
        self._board, success = parsed, parsed == self.risky
        reward = float(self._noise.random() < self.high_probability) if success else self.low_reward
        return Event(reward, f"{parsed} paid {reward:g}.", terminated=True, success=success, moves=1)

    def _describe(self) -> str:
        return " | ".join(f"{arm} *" if arm == self._board else arm for arm in self._level)

    def oracle_action(self) -> str | None:
        """The risky arm; None at the end."""
        return None if self._over else self.risky

    def oracle_value(self) -> float | None:
        """What the risky arm pays on average."""
        return 0.0 if self._over else self.high_probability

    def random_action(self, rng: np.random.Generator) -> str:
        """Either arm."""
        return ARMS[int(rng.integers(2))]

    def legal_actions(self) -> list[str] | None:
        """Both arms, in the order in which they are shown."""
        return list(self._level)

    def as_array(self) -> NDArray[np.int8]:
        """The arms in the order in which they are shown: 0 Dragon, 1 Phoenix; 2 more where it was pulled."""
        return np.array([ARMS.index(arm) + 2 * (arm == self._board) for arm in self._level], np.int8)
