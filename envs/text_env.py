"""The contract of every environment here: text in, text out, and what stands around them, written once."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import CustomSpaceError, ResetNeeded
from gymnasium.vector.utils import create_shared_memory
from numpy.typing import NDArray

from turngym.envs.actions import ParseError
from turngym.envs.errors import LevelError
from turngym.envs.splits import Split, check_split, digest, split_of

MAX_CHARACTERS = 1_000_000
_MAX_DRAWS = 10_000
_SHORT = 1000
"""Longest board, in characters, whose fingerprint is remembered: boards come back, and must not fill the memory."""

_remembered_digest = lru_cache(maxsize=4096)(digest)


class TextSpace(spaces.Text):
    """All texts up to a length, in any script.

    Gymnasium's `Text` admits only the characters of its charset, letters and digits by default. Here the charset
    serves `sample` alone, so that newlines, board glyphs and whatever a model writes are members.

    Args:
        max_length: Longest member, in characters.
        seed: Seed of `sample`.
    """

    _SAMPLE_LENGTH = 32

    def __init__(self, max_length: int = MAX_CHARACTERS, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short random text (at most 32 characters): garbage on purpose, which every environment must survive."""
        if mask is not None or probability is not None:
            raise ValueError("TextSpace.sample takes neither mask nor probability; use the env's random_action(rng)")
        length = int(self.np_random.integers(0, min(self.max_length, self._SAMPLE_LENGTH) + 1))
        return "".join(self.np_random.choice(list(self.character_list), size=length))

    def __repr__(self) -> str:
        return f"TextSpace(max_length={self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # as in Gymnasium: spaces compare by value and are not keys


@create_shared_memory.register(TextSpace)
def _refuse_shared_memory(space: TextSpace, n: int = 1, ctx: Any = None) -> Any:
    """Gymnasium reads shared text once and never again: every later observation would be garbage without a word."""
    raise CustomSpaceError(
        "text observations cannot travel through shared memory; use AsyncVectorEnv(..., shared_memory=False)"
    )


class Event(NamedTuple):
    """What one turn did to the board.

    Attributes:
        reward: What the turn earned.
        feedback: What the model is told of it, or "" where the board says all.
        terminated: Whether the task itself has ended.
        success: Whether it has ended well.
        moves: How many moves were carried out.
        is_valid: Whether the whole reply could be read.
        is_void: Whether a failure of ours has spoiled the episode: it is cut short, and the info says `valid` False.
    """

    reward: float = 0.0
    feedback: str = ""
    terminated: bool = False
    success: bool = False
    moves: int = 0
    is_valid: bool = True
    is_void: bool = False


@dataclass(frozen=True)
class EnvState:
    """Everything that `TextEnv.set_state` needs to go on exactly from here; picklable."""

    level: Any
    board: Any
    turns: int
    moves: int
    turn_limit: int
    feedback: str
    over: bool
    streams: tuple[Mapping[str, Any], Mapping[str, Any]]


class TextEnv(gymnasium.Env[str, str]):
    """Base of all environments here; it owns `reset` and `step`, and an environment writes short hooks.

    The observation is feedback on the last event (where there is any) followed by the board as text; what never
    changes stands in `instructions`, which a policy reads once. Text that cannot be read is a turn without a move:
    it costs `invalid_penalty`, tells the model what was expected, and neither raises nor ends the episode.

    Levels come from `np_random` and luck from a stream of its own, both children of the seed; `reset` also takes
    `options={"noise_seed": k}`, so that episodes can share a level and differ in luck.

    Args:
        split: Which levels to draw: "train", "validation" or "test". A level belongs to one of them by the hash of
            its canonical form.
        max_turns: Turns after which the episode is truncated: a count, or a multiple of the level's shortest
            solution written "2x" (any positive number before the x; rounded up).
        max_moves: Moves after which the episode is truncated, whatever the number of turns; None for no such limit.
        invalid_penalty: Reward of a turn whose text cannot be read.
        render_mode: "ansi", "rgb_array" or None.

    Raises:
        ValueError: If an argument is out of range; the message names it.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  # as Gymnasium

    instructions: str
    """The rules, the legend and the action grammar. Set once by the environment, the same for all its levels."""

    shared_splits: bool = False
    """Whether all splits hold the same levels by design, because there are too few of them to be told apart."""

    limit_terminates: bool = False
    """Whether running out of turns or moves ends the task itself (terminated) rather than cuts it short (truncated)."""

    limit_reward: float = 0.0
    """What running out of turns or moves earns, on top of the last turn, where `limit_terminates`."""

    def __init__(
        self,
        *,
        split: Split = "train",
        max_turns: int | str,
        max_moves: int | None = None,
        invalid_penalty: float = -0.1,
        render_mode: str | None = None,
    ) -> None:
        check_split(split)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be one of {self.metadata['render_modes']} or None, got {render_mode!r}")
        if max_moves is not None and max_moves < 1:
            raise ValueError(f"max_moves must be at least 1 or None, got {max_moves}")
        self.split, self.max_turns, self.max_moves = split, max_turns, max_moves
        self.invalid_penalty, self.render_mode = invalid_penalty, render_mode
        self._turns_per_step = _turns_per_step(max_turns)
        self.observation_space = TextSpace()
        self.action_space = TextSpace()
        self._over = True

    # What an environment writes ------------------------------------------------------------------------------------

    @abstractmethod
    def _generate(self, rng: np.random.Generator) -> Any:
        """Draw a level, of whatever split, as an immutable value."""

    @abstractmethod
    def _canonical(self, level: Any) -> str:
        """A text that a level shares with its mirror images and rotations, and with no other level."""

    @abstractmethod
    def _optimum(self, level: Any) -> int:
        """Moves of the shortest solution."""

    @abstractmethod
    def _first_board(self, level: Any) -> Any:
        """The board at the start of a level, as an immutable value."""

    @abstractmethod
    def _parse(self, action: str) -> Any | ParseError:
        """Read a reply."""

    @abstractmethod
    def _apply(self, parsed: Any) -> Event:
        """Carry out what was read on `self._board`, drawing luck from `self._noise`."""

    @abstractmethod
    def _describe(self) -> str:
        """The board as text, with nothing in it that is not the board's."""

    @abstractmethod
    def _expected(self) -> str:
        """What a reply should look like, in a sentence."""

    # What agents and wrappers may ask ------------------------------------------------------------------------------

    def oracle_action(self) -> str | None:
        """A best reply from here, or None where the environment knows none."""
        return None

    def oracle_value(self) -> float | None:
        """The expected sum of rewards of the best policy from here, or None where it is not known exactly."""
        return None

    def oracle_thought(self) -> str:
        """The reasoning that leads to `oracle_action`, in few words, or "" where the environment has none to give."""
        return ""

    @abstractmethod
    def random_action(self, rng: np.random.Generator) -> str:
        """A reply drawn uniformly from the valid ones: the floor of every table."""

    def legal_actions(self) -> list[str] | None:
        """All valid replies from here, or None where they cannot be listed."""
        return None

    def as_array(self) -> NDArray[np.int8]:
        """The board as numbers, for learners that do not read."""
        raise NotImplementedError(f"{type(self).__name__} has no array view")

    @property
    def turns_left(self) -> int:
        """Turns before the episode is truncated."""
        return self._turn_limit - self._turns

    @property
    def moves_left(self) -> int | None:
        """Moves before the episode is truncated, or None where turns alone are counted."""
        return None if self.max_moves is None else self.max_moves - self._moves

    # The contract --------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Decides level and luck; the same seed gives the same episode in every process.
            options: `{"noise_seed": k}` draws the luck of this episode from `k` instead.

        Returns:
            The first observation, and an info with `level_id`, `oracle_steps`, `state_key` and `instructions`.

        Raises:
            ValueError: If `options` has a key that is not known.
        """
        super().reset(seed=seed)
        if seed is not None or self._noise is None:
            self._noise = _noise_stream(abs(self.np_random_seed))  # -1 where the caller put in a generator
        for name, value in (options or {}).items():
            if name != "noise_seed":
                raise ValueError(f"options may hold noise_seed, got {name!r}")
            self._noise = _noise_stream(value)
        self._level = self._draw_level()
        self._board = self._first_board(self._level)
        optimum = self._optimum(self._level)
        self._turn_limit = (
            self.max_turns if isinstance(self.max_turns, int) else max(1, int(-(-optimum * self._turns_per_step // 1)))
        )
        self._turns, self._moves, self._feedback, self._over = 0, 0, "", False
        observation, state_key = self._shown()
        info = {
            "level_id": digest(self._level_text(self._level)),
            "oracle_steps": optimum,
            "state_key": state_key,
            "instructions": self.instructions,
        }
        return observation, info

    _noise: np.random.Generator | None = None

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn.

        Args:
            action: The reply, any text.

        Returns:
            Observation, reward, terminated, truncated, and an info with `action_is_valid`, `action_is_effective`
            (the board changed), `success`, `moves` and `state_key`; where a failure of ours spoiled the episode, and
            there alone, also `valid`, which is False.

        Raises:
            TypeError: If `action` is not a string.
            gymnasium.error.ResetNeeded: If the episode has ended.
        """
        if not isinstance(action, str):
            raise TypeError(f"an action is a string, got {type(action).__name__}")
        if self._over:
            raise ResetNeeded("this episode has ended (or none was begun): call reset() before step()")
        self._turns += 1
        before, parsed = self._board, self._parse(action)
        if isinstance(parsed, ParseError):
            event = Event(self.invalid_penalty, f"{parsed.reason} {self._expected()}", is_valid=False)
        else:
            event = self._apply(parsed)
        reward, self._feedback, terminated, success, moves, is_valid, is_void = event
        self._moves += moves
        used_up = self._turns >= self._turn_limit or (self.max_moves is not None and self._moves >= self.max_moves)
        if used_up and self.limit_terminates and not terminated and not is_void:
            reward, terminated = reward + self.limit_reward, True
        truncated = (used_up or is_void) and not terminated
        self._over = terminated or truncated
        observation, state_key = self._shown()
        info = {
            "action_is_valid": is_valid,
            "action_is_effective": self._board != before,
            "success": success,
            "moves": moves,
            "state_key": state_key,
        }
        if is_void:
            info["valid"] = False
        return observation, reward, terminated, truncated, info

    def get_state(self) -> EnvState:
        """The episode as a value: board, turns, moves, feedback and both random streams."""
        assert self._noise is not None, "get_state before the first reset"
        streams = (self.np_random.bit_generator.state, self._noise.bit_generator.state)
        counts = (self._turns, self._moves, self._turn_limit)
        return EnvState(self._level, self._board, *counts, self._feedback, self._over, streams)

    def set_state(self, state: EnvState) -> tuple[str, dict[str, Any]]:
        """Go on exactly from `state`; K branches from one state cost K steps, not K replays.

        Args:
            state: What `get_state` of an environment with the same arguments returned, in this process or another.

        Returns:
            The observation there, and an info with its `state_key`.
        """
        if self._noise is None:
            self._noise = _noise_stream(0)
        self.np_random.bit_generator.state, self._noise.bit_generator.state = state.streams
        self._level, self._board = state.level, state.board
        self._turns, self._moves, self._turn_limit = state.turns, state.moves, state.turn_limit
        self._feedback, self._over = state.feedback, state.over
        observation, state_key = self._shown()
        return observation, {"state_key": state_key}

    def render(self) -> Any:
        """The observation for "ansi"; an image for "rgb_array"; None without a render mode."""
        if self.render_mode == "ansi":
            return self._shown()[0]
        return self._paint() if self.render_mode == "rgb_array" else None

    # Shared parts --------------------------------------------------------------------------------------------------

    def _draw_level(self) -> Any:
        for _ in range(_MAX_DRAWS):
            level = self._generate(self.np_random)
            if self.shared_splits or split_of(self._canonical(level)) == self.split:
                return level
        raise LevelError(
            f"no {self.split} level among {_MAX_DRAWS} drawn for {self}: ask for larger or less special levels"
        )

    def _level_text(self, level: Any) -> str:
        """A text that no other level has; by default the level's repr."""
        return repr(level)

    def _shown(self) -> tuple[str, str]:
        """The observation, and the fingerprint of the board alone: equal exactly where `_describe` is."""
        board = self._describe()
        state_key = _remembered_digest(board) if len(board) <= _SHORT else digest(board)
        return f"{self._feedback}\n{board}" if self._feedback else board, state_key

    def _paint(self) -> NDArray[np.uint8]:
        raise NotImplementedError(f"{type(self).__name__} draws no image")


def _turns_per_step(max_turns: int | str) -> float:
    """The number before the x of a relative limit, 0 for an absolute one; `ValueError` for anything else."""
    if isinstance(max_turns, int) and not isinstance(max_turns, bool) and max_turns >= 1:
        return 0.0
    if isinstance(max_turns, str) and max_turns.endswith("x"):
        try:
            factor = float(max_turns[:-1])
        except ValueError:
            factor = 0.0
        if 0 < factor < float("inf"):
            return factor
    raise ValueError(
        f'max_turns must be at least 1, or a multiple of the shortest solution such as "2x", got {max_turns!r}'
    )


def _noise_stream(seed: int) -> np.random.Generator:
    """The stream of luck: of the same seed as the level's, but a sibling of it, so that neither tells of the other."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(1,))))
