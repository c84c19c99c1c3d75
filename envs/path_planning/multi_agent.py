"""MultiAgentPathPlanning: the game of `joint` with one player for each agent (extra `multiagent`)."""

from typing import Any, NamedTuple

from gymnasium import spaces

from turngym.envs.actions import ParseError
from turngym.envs.path_planning import fleet_text
from turngym.envs.path_planning.fleet import MOVES, STAY, Conflict, advance
from turngym.envs.path_planning.joint import JointPathPlanningEnv
from turngym.envs.path_planning.sensor import Sensor
from turngym.envs.text_env import TextSpace
from turngym.lazy import require

_ParallelEnv: Any = require("pettingzoo", "multiagent").ParallelEnv

Observation = dict[str, str]
Info = dict[str, Any]


class Reply(NamedTuple):
    """What one agent does and says; a message of "" is none."""

    move: int
    message: str


def parse_reply(text: str, message_length: int) -> Reply | ParseError:
    """Read one agent's reply, all or nothing.

    Args:
        text: A move, in any case; behind it, if messages are allowed, `|` and a message. White space in a message is
            made single spaces.
        message_length: How many characters a message may have; 0 allows none.

    Returns:
        The move and the message; or a `ParseError` that says what was expected.
    """
    move, bar, rest = text.partition(fleet_text.SEPARATOR)
    code, message = fleet_text.CODES.get(move.strip().lower()), " ".join(rest.split())
    if code is None or (bar and not message_length):
        return ParseError("I could not read a move.")
    if len(message) > message_length:
        return ParseError(f"A message may have {message_length} characters.")
    return Reply(code, message)


class MultiAgentPathPlanning(_ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Several agents, each with a mind of its own, on their way to their goals: a PettingZoo `ParallelEnv`.

    Levels, rules of movement, turn limit and splits are those of `JointPathPlanningEnv`. Agents are `agent_a`,
    `agent_b` and so on; all of them are live until the episode ends, for all at once.

    An observation is `{"text": str}`: the agent's own conflicts of the last turn in words, then what others said, a
    line `b says: …` each, then the board as in `JointPathPlanningEnv`, the agent itself first in its first line. An
    action is a text: a move, or with messages `Up | text`. What cannot be read is `Stay`, and costs its author
    `invalid_penalty`.

    The reward is the team's, the same for each: 1 for success, less the turn's cost for all agents in units of the
    optimum by conflict-based search; an episode with the best plan totals 0. Infos are those of our contract, with
    `action_is_valid`, `action_is_effective` (the agent itself moved) and `instructions` of each agent's own; at `reset`
    they also hold `optimal_cost`, the sum of loss of the best plan. Of the options that `reset` takes, `noise_seed` is
    known and others are ignored.

    Args:
        radius: How many rows and columns away an agent sees; the rest of the map is `?`, and agents there are neither
            drawn nor listed. The own goal and those of the agents in sight are shown wherever they are. None shows all.
        message_length: How many characters an agent may say to all others in a turn, who read it at their next one,
            however far away; 0 for no messages.
        **arguments: Those of `JointPathPlanningEnv`.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(self, *, radius: int | None = None, message_length: int = 0, **arguments: Any) -> None:
        if message_length < 0:
            raise ValueError(f"message_length must be at least 0, got {message_length}")
        self.joint = JointPathPlanningEnv(**arguments)
        self.sensor = None if radius is None else Sensor(radius)
        self.message_length = message_length
        self.metadata = {**self.joint.metadata, "name": "MultiAgentPathPlanning-v0", "is_parallelizable": True}
        self.render_mode = self.joint.render_mode
        self.possible_agents = [f"agent_{fleet_text.NAMES[number]}" for number in range(self.joint.agents)]
        self.agents: list[str] = []
        self.observation_spaces = {agent: spaces.Dict({"text": TextSpace()}) for agent in self.possible_agents}
        self.action_spaces = {agent: TextSpace() for agent in self.possible_agents}
        self.instructions = {
            agent: self._instructions(fleet_text.NAMES[number]) for number, agent in enumerate(self.possible_agents)
        }

    def observation_space(self, agent: str) -> spaces.Dict:
        """The space of `{"text": str}`, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> TextSpace:
        """The space of replies, the same object every time."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin an episode; the seed decides the level, as in `JointPathPlanningEnv`."""
        known = {name: value for name, value in (options or {}).items() if name == "noise_seed"}
        _, info = self.joint.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        info["optimal_cost"] = self.joint.optimal_cost
        infos = {agent: {**info, "instructions": self.instructions[agent]} for agent in self.agents}
        return self._observations([[] for _ in self.agents]), infos

    def step(
        self, actions: dict[str, str]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """Play one turn; without live agents nothing happens.

        Raises:
            ValueError: If a live agent has no action.
            TypeError: If an action is not a string.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        live, replies = self.agents, self._read(actions)
        before = self.joint.cells
        moves = [STAY if isinstance(reply, ParseError) else reply.move for reply in replies]
        conflicts = advance(self.joint.fleet.map, before, moves).conflicts
        _, reward, terminated, truncated, info = self.joint.step(fleet_text.spell(moves))
        observations = self._observations(self._told(replies, conflicts))
        rewards, infos = dict[str, float](), dict[str, Info]()
        for number, (agent, reply) in enumerate(zip(live, replies, strict=True)):
            is_valid = not isinstance(reply, ParseError)
            rewards[agent] = float(reward) + (0.0 if is_valid else self.joint.invalid_penalty)
            is_effective = self.joint.cells[number] != before[number]
            own = {"action_is_valid": is_valid, "action_is_effective": is_effective, "moves": int(is_valid)}
            infos[agent] = {**info, **own}
        if terminated or truncated:
            self.agents = []
        return observations, rewards, dict.fromkeys(live, terminated), dict.fromkeys(live, truncated), infos

    def render(self) -> Any:
        """The whole board, as `JointPathPlanningEnv` draws it."""
        return self.joint.render()

    def close(self) -> None:
        """Close the game."""
        self.joint.close()

    def oracle_actions(self) -> dict[str, str] | None:
        """Every live agent's move by the best joint plan from here; None where the search for it gave up."""
        if not self.agents:
            return {}
        reply = self.joint.oracle_action()
        if reply is None:
            return None
        moves = [item.split()[1] for item in reply.split(fleet_text.SEPARATOR)]
        return dict(zip(self.agents, moves, strict=True))

    def random_actions(self, rng: Any) -> dict[str, str]:
        """A move for every live agent, drawn uniformly from a NumPy generator; nobody says anything."""
        return {agent: MOVES[int(rng.integers(len(MOVES)))] for agent in self.agents}

    def _read(self, actions: dict[str, str]) -> list[Reply | ParseError]:
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"actions must hold one for every live agent, got none for {', '.join(missing)}")
        for agent in self.agents:
            if not isinstance(actions[agent], str):
                raise TypeError(f"an action is a string, got {type(actions[agent]).__name__} for {agent}")
        return [parse_reply(actions[agent], self.message_length) for agent in self.agents]

    def _told(self, replies: list[Reply | ParseError], conflicts: tuple[Conflict, ...]) -> list[list[str]]:
        """What every agent is told of the turn, in lines."""
        names = fleet_text.NAMES
        said = [None if isinstance(reply, ParseError) else reply.message for reply in replies]
        told = []
        for number, reply in enumerate(replies):
            own = [conflict for conflict in conflicts if number in conflict.agents]
            events = [f"{reply.reason} {self._expected()}"] if isinstance(reply, ParseError) else []
            events += [fleet_text.tell(own)] if own else []
            events += [fleet_text.ARRIVED] if self.joint.is_solved else []
            lines = [f"{names[other]} says: {text}" for other, text in enumerate(said) if text and other != number]
            told.append([" ".join(events), *lines] if events else lines)
        return told

    def _observations(self, told: list[list[str]]) -> dict[str, Observation]:
        texts = ["\n".join([*lines, self._board(number)]) for number, lines in enumerate(told)]
        return {agent: {"text": text} for agent, text in zip(self.possible_agents, texts, strict=True)}

    def _board(self, number: int) -> str:
        """What an agent sees."""
        fleet, cells = self.joint.fleet, self.joint.cells
        others = [other for other in range(len(cells)) if other != number]
        if self.sensor is None:
            return fleet_text.describe(fleet, cells, [number, *others])
        seen = self.sensor.view((fleet.map.rows, fleet.map.cols), cells[number])
        return fleet_text.describe(fleet, cells, [number, *(other for other in others if seen[cells[other]])], seen)

    def _instructions(self, name: str) -> str:
        view = (
            ""
            if self.sensor is None
            else f" You see {self.sensor.radius} rows and columns around you, and nothing of the agents farther away; "
            "? is unseen."
        )
        return (
            f"You are {name}, one of {self.joint.agents} agents on one map; the others decide for themselves. "
            f"{fleet_text.LEGEND} The line begins with you.{view} {fleet_text.RULES} {self._expected()}"
        )

    def _expected(self) -> str:
        says = f" Behind it you may say something to all others, such as Up {fleet_text.SEPARATOR} after you, in up to "
        message = f"{says}{self.message_length} characters." if self.message_length else ""
        return f"Reply with one of: {', '.join(MOVES)}.{message}"
