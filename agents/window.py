"""A short memory: what a policy reads of a long episode before each reply."""

from collections import deque
from collections.abc import Callable, Sequence

Encode = Callable[..., list[int]]
"""`(text, first=...)` to ids, as `TurnFormat.observation`."""


class Window:
    """The instructions, the last turns, and the newest observation: a conversation that began so many turns ago.

    Args:
        prompt: Ids of the instructions.
        encode: Encodes an observation, the first one of a conversation otherwise than later ones.
        turns: How many turns before the present one are remembered; 0 for none.
    """

    def __init__(self, prompt: Sequence[int], encode: Encode, turns: int) -> None:
        self._prompt, self._encode = list(prompt), encode
        self._past: deque[tuple[str, list[int]]] = deque(maxlen=turns)
        self._newest = ""

    def context(self, observation: str) -> list[int]:
        """Ids of all that is read before the reply to an observation."""
        ids = list(self._prompt)
        for at, (text, reply) in enumerate([*self._past, (observation, [])]):
            ids += [*self._encode(text, first=at == 0), *reply]
        return ids

    def hear(self, observation: str) -> list[int]:
        """Begin a turn; returns its context."""
        self._newest = observation
        return self.context(observation)

    def answer(self, reply: Sequence[int]) -> None:
        """End a turn, with the ids of its reply and of what ends it; the oldest turn is forgotten."""
        self._past.append((self._newest, list(reply)))
