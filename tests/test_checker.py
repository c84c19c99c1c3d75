"""`check_text_env` passes an environment that keeps the contract, and catches each way of breaking it by name."""

import functools
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from turngym.envs import check_text_env
from turngym.envs.errors import ContractError, TurngymError
from turngym.envs.text_env import TextSpace

_STEPS = {"one": 1, "two": 2}
_LIMIT = 6


class Counting(gymnasium.Env[str, str]):
    """Count to a number in ones and twos. It keeps the contract without any base class of ours."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}
    instructions = "Count from 0 to the number that you see. Reply with one or two."

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space, self.action_space = TextSpace(), TextSpace()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.target, self.count, self.turns, self.told = int(self.np_random.integers(3, 6)), 0, 0, ""
        return self.text(), {
            "level_id": str(self.target),
            "oracle_steps": (self.target + 1) // 2,
            "state_key": self.key(),
            "instructions": self.instructions,
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        step = self.read(action)
        self.turns, self.count = self.turns + 1, self.count + (step or 0)
        self.told = f"You added {step}. " if step else "Reply with one or two. "
        success, over = self.count == self.target, self.count >= self.target
        return self.text(), float(success), over, not over and self.turns >= _LIMIT, self.told_of(step, success)

    def told_of(self, step: int | None, success: bool) -> dict[str, Any]:
        valid = step is not None
        return {"action_is_valid": valid, "action_is_effective": valid, "success": success, "state_key": self.key()}

    def read(self, action: str) -> int | None:
        return _STEPS.get(action)

    def text(self) -> str:
        return f"{self.told}{self.count} of {self.target}"

    def key(self) -> str:
        return f"{self.count}/{self.target}"

    def render(self) -> Any:
        return self.text() if self.render_mode == "ansi" else None

    @property
    def turns_left(self) -> int:
        return _LIMIT - self.turns

    def random_action(self, rng: np.random.Generator) -> str:
        return ("one", "two")[rng.integers(2)]

    def legal_actions(self) -> list[str] | None:
        return ["one", "two"]

    def oracle_action(self) -> str | None:
        return "two" if self.target - self.count >= 2 else "one"

    def oracle_value(self) -> float | None:
        return 1.0

    def get_state(self) -> Any:
        return self.target, self.count, self.turns, self.told, self.np_random.bit_generator.state

    def set_state(self, state: Any) -> tuple[str, dict[str, Any]]:
        self.target, self.count, self.turns, self.told, self.np_random.bit_generator.state = state
        return self.text(), {"state_key": self.key()}


class AnyText(spaces.Text):
    """Any text is a member, and shared memory is not refused."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class UnpicklableSpace(TextSpace):
    def __reduce__(self) -> Any:
        raise TypeError("this space cannot travel")


BROKEN: list[tuple[type[Counting], str]] = []


def caught(message: str) -> Callable[[type[Counting]], type[Counting]]:
    """Say by which message the checker must refuse a class."""

    def note(broken: type[Counting]) -> type[Counting]:
        BROKEN.append((broken, message))
        return broken

    return note


def with_info(method: str, **extra: Any) -> Any:
    """A `reset` or `step` that adds to its info, or takes away from it where the value is None."""

    @functools.wraps(getattr(Counting, method))
    def call(env: Counting, *arguments: Any, **keywords: Any) -> Any:
        *rest, info = getattr(Counting, method)(env, *arguments, **keywords)
        info = {**info, **{key: value(env) for key, value in extra.items() if value is not None}}
        return *rest, {key: value for key, value in info.items() if extra.get(key, key) is not None}

    return call


@caught(r"found '' outside observation_space; expected any text inside: use .*TextSpace")
class StockObservations(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(100)


@caught("outside action_space; expected any text inside")
class StockActions(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Text(100)


@caught(r"observation_space that AsyncVectorEnv\(shared_memory=True\) takes, .*; expected one that refuses")
class SharedMemory(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = AnyText(100)


@caught("found TypeError from pickling action_space: this space cannot travel; expected no exception")
class UnpicklableActions(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = UnpicklableSpace()


@caught("found by Gymnasium's check_env: .*super.*reset")
class SeedIsIgnored(Counting):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset()


@caught("found by Gymnasium's check_env: .*observation")
class ObservationIsBytes(Counting):
    def text(self) -> Any:
        return super().text().encode()


@caught("found by Gymnasium's check_env: Deterministic step info are not equivalent")
class TimeInStepInfo(Counting):
    step = with_info("step", took=lambda env: time.perf_counter())


@caught("found no `instructions`; expected a str with rules, legend and action grammar")
class NoInstructions(Counting):
    instructions = property()  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        type(self).instructions = "for the info alone"
        result = super().reset(seed=seed)
        type(self).instructions = property()
        return result


@caught("found instructions ' '; expected a non-empty str")
class BlankInstructions(Counting):
    instructions = " "


@caught(r"found info\['instructions'\] 'Reach 5.' at reset\(seed=0\); expected the attribute `instructions`")
class InstructionsOfTheLevel(Counting):
    reset = with_info("reset", instructions=lambda env: f"Reach {env.target}.")


@caught(r"found no info\['level_id'\] at reset, but \['instructions', 'oracle_steps', 'state_key'\]; expected a str")
class NoLevelId(Counting):
    reset = with_info("reset", level_id=None)


@caught(r"found info\['level_id'\] of type int at reset; expected a str")
class LevelIdIsANumber(Counting):
    reset = with_info("reset", level_id=lambda env: env.target)


@caught(r"found info\['oracle_steps'\] '3' at reset; expected an int, or None")
class OracleStepsInWords(Counting):
    reset = with_info("reset", oracle_steps=lambda env: "3")


@caught(r"found no info\['action_is_effective'\] at step")
class NoEffect(Counting):
    step = with_info("step", action_is_effective=None)


@caught(r"found info\['success'\] of type numpy.bool at step; expected a bool")
class SuccessIsNumPys(Counting):
    step = with_info("step", success=lambda env: np.bool_(env.count == env.target))


@caught(r"found info\['moves'\] 1.0 at step; expected an int")
class MovesIsAFloat(Counting):
    step = with_info("step", moves=lambda env: 1.0)


@caught("found a reward of inf; expected a finite number")
class InfiniteReward(Counting):
    def step(self, action: str) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, float("inf") if reward else 0.0, *rest


@caught(r"found terminated and truncated both true after step\('two'\); expected one of them")
class TwoEnds(Counting):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, terminated or truncated, info


@caught(r"found no `random_action`; expected a hook random_action\(rng\) -> str")
class NoRandomAction(Counting):
    random_action = property()  # type: ignore[assignment]


@caught(r"found int from random_action\(rng\); expected a str")
class RandomActionIsANumber(Counting):
    def random_action(self, rng: np.random.Generator) -> Any:
        return 1


@caught(r"found KeyError from step\('two'\): 'two'; expected no exception")
class ValidActionRaises(Counting):
    def read(self, action: str) -> int | None:
        return {"one": 1}[action] if action in _STEPS else None


@caught(r"found UnicodeEncodeError from step\('\\ud800'\)")
class HalfASurrogatePairRaises(Counting):
    def read(self, action: str) -> int | None:
        return super().read(action.encode().decode())


@caught(r"found ValueError from step\('xxxx.*of 100000 characters\)")
class LongTextRaises(Counting):
    def read(self, action: str) -> int | None:
        if len(action) > 1000:
            raise ValueError("too long")
        return super().read(action)


@caught(r"found the episode ended by the unreadable action '\\x00'; expected a turn without a move")
class NulEndsTheEpisode(Counting):
    def step(self, action: str) -> Any:
        observation, reward, terminated, *rest = super().step(action)
        return observation, reward, terminated or action == "\x00", *rest


@caught(r"found the board changed by the unreadable action '-1'; expected a turn without a move")
class UnreadableMoves(Counting):
    def told_of(self, step: int | None, success: bool) -> dict[str, Any]:
        return {**super().told_of(step, success), "action_is_valid": step in (1, 2)}

    def read(self, action: str) -> int | None:
        return -1 if action == "-1" else super().read(action)


@caught(r"found success by the unreadable action '\|\|'; expected a turn without a move")
class UnreadableWins(Counting):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return *rest, {**info, "success": info["success"] or action == "||"}


@caught("found no end after 10000 turns; expected a limit on turns")
class NoLimit(Counting):
    def step(self, action: str) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info

    turns_left = None  # type: ignore[assignment]


@caught("found no end after 10000 turns; expected a limit on turns")
class NoLimitOnWhatIsRead(NoLimit):
    def step(self, action: str) -> Any:
        self.count = 0
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, not info["action_is_valid"] and self.turns >= _LIMIT, info


@caught(r"found turns_left \[7, 6, 5, 4, 3\] before 6 turns; expected a count of the turns still to come")
class TurnsLeftIsOneTooMany(Counting):
    @property
    def turns_left(self) -> int:
        return _LIMIT - self.turns + 1


@caught(r"found two values of info\['made'\] at turn 0 of one episode, .*; expected the same episode for the same seed")
class TimeInResetInfo(Counting):
    reset = with_info("reset", made=lambda env: time.perf_counter())


@caught("found two observations at turn 1 of one episode, .*; expected the same episode for the same seed")
class MemoryOfEarlierEpisodes(Counting):
    wins = 0

    def step(self, action: str) -> Any:
        observation, reward, *rest = super().step(action)
        self.wins += reward > 0
        return f"{observation} after {self.wins} wins", reward, *rest


@caught("found a global random generator moved by an episode; expected draws from self.np_random")
class GlobalRandomness(Counting):
    def text(self) -> str:
        random.random()
        return super().text()


@caught("found a global random generator moved by an episode; expected draws from self.np_random")
class NumPysGlobalRandomness(Counting):
    def text(self) -> str:
        np.random.random()
        return super().text()


@caught(r"found an object in info\['history'\] returned by two calls; expected a new object at every call")
class SharedHistory(Counting):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.history: list[int] = []
        return super().reset(seed=seed)

    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        self.history.append(self.count)
        return *rest, {**info, "history": {"counts": self.history}}


@caught(r"found \[.*'one'.*\] and \[.*\] from random_action with equal rngs; expected draws from rng alone")
class RandomActionDrawsFromTheEnvironment(Counting):
    def random_action(self, rng: np.random.Generator) -> str:
        return super().random_action(self.np_random)


@caught(r"found info\['action_is_valid'\] False for 'three' from random_action; expected only valid actions from it")
class RandomActionIsInvalid(Counting):
    def random_action(self, rng: np.random.Generator) -> str:
        return "three"


@caught(r"found no `get_state`; expected get_state\(\) -> state")
class NoGetState(Counting):
    get_state = property()  # type: ignore[assignment]


@caught(r"from pickling get_state\(\)")
class UnpicklableState(Counting):
    def get_state(self) -> Any:
        return (*super().get_state(), lambda: None)

    def set_state(self, state: Any) -> Any:
        return super().set_state(state[:-1])


@caught("from set_state; expected the observation that stood there, 'You added")
class FeedbackIsForgotten(Counting):
    def set_state(self, state: Any) -> Any:
        super().set_state(state)
        self.told = ""
        return self.text(), {"state_key": self.key()}


@caught(r"found info\['state_key'\] None from set_state; expected that of the board which stood there")
class NoStateKey(Counting):
    def set_state(self, state: Any) -> Any:
        return super().set_state(state)[0], {}


@caught(r"expected set_state\(state\) to go on exactly from there")
class TurnsAreForgotten(Counting):
    def set_state(self, state: Any) -> Any:
        turns = self.turns
        result = super().set_state(state)
        self.turns = turns
        return result


@caught("found no end after 10000 turns; expected a limit on turns")
class LimitIsForgotten(Counting):
    limit = _LIMIT
    turns_left = None  # type: ignore[assignment]

    def step(self, action: str) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, not terminated and self.turns == self.limit, info

    def set_state(self, state: Any) -> Any:
        result = super().set_state(state)
        self.limit = 0
        return result


@caught(r"expected set_state\(state\) to go on exactly from there")
class StreamIsForgotten(Counting):
    def set_state(self, state: Any) -> Any:
        return super().set_state((*state[:-1], self.np_random.bit_generator.state))


@caught("from set_state; expected the observation that stood there")
class StateIsAlive(Counting):
    def get_state(self) -> Any:
        return self.__dict__

    def set_state(self, state: Any) -> Any:
        self.__dict__.update(state)
        return self.text(), {"state_key": self.key()}


@caught(r"found info\['action_is_valid'\] False for 'three' from legal_actions")
class LegalActionIsInvalid(Counting):
    def legal_actions(self) -> list[str] | None:
        return ["one", "two", "three"]


@caught(r"found legal_actions\(\) .* expected a non-empty list of str, or None")
class LegalActionsAreATuple(Counting):
    def legal_actions(self) -> Any:
        return "one", "two"


@caught("oracle_value, legal_actions, get_state, random_action and render to change nothing")
class AskingTakesATurn(Counting):
    def oracle_action(self) -> str | None:
        self.told = "You asked. "
        self.turns += 1
        return super().oracle_action()


@caught(r"found info\['action_is_valid'\] False for 'three' from oracle_action")
class OracleIsUnreadable(Counting):
    def oracle_action(self) -> str | None:
        return "three"


@caught(r"found no success from the oracle's actions at seed \d; expected success where oracle_value\(\) is 1")
class OracleOvershoots(Counting):
    def oracle_action(self) -> str | None:
        return "two"


@caught(r"found no success from the oracle's actions at seed 0")
class OracleGivesUp(Counting):
    def oracle_action(self) -> str | None:
        return None


@caught(r"found oracle_value\(\) nan; expected a finite number, or None")
class ValueIsNotANumber(Counting):
    def oracle_value(self) -> float | None:
        return float("nan")


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_environment_is_caught(broken: type[Counting], message: str) -> None:
    with pytest.raises(ContractError, match=message) as caught_error:
        check_text_env(broken())
    assert str(caught_error.value).startswith(f"{broken.__name__}: found ")


@pytest.fixture
def register() -> Iterator[Callable[..., str]]:
    """Register environments for the time of one test."""
    names = []

    def add(entry_point: Any) -> str:
        names.append(f"Counting{len(names)}-v0")
        gymnasium.register(names[-1], entry_point=entry_point)
        return names[-1]

    yield add
    for name in names:
        gymnasium.registry.pop(name)


def test_a_good_environment_passes() -> None:
    check_text_env(Counting())
    check_text_env(Counting(render_mode="ansi"))


def test_a_good_environment_passes_registered_and_wrapped(register: Callable[..., str]) -> None:
    name = register(Counting)
    check_text_env(gymnasium.make(name))
    check_text_env(TimeLimit(gymnasium.make(name), 100))


def test_hooks_beyond_the_first_are_optional() -> None:
    class Plain(Counting):
        def __getattribute__(self, name: str) -> Any:
            if name in ("oracle_action", "oracle_value", "legal_actions", "turns_left"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    check_text_env(Plain())


def test_an_oracle_may_promise_less() -> None:
    class Modest(OracleOvershoots):
        def oracle_value(self) -> float | None:
            return 0.5

    check_text_env(Modest())


@pytest.mark.filterwarnings("ignore")  # that warnings are errors is the checker's own doing
def test_render_modes_are_tried_where_there_is_a_spec(register: Callable[..., str]) -> None:
    class Speechless(Counting):
        def render(self) -> Any:
            return None

    with pytest.raises(ContractError, match=r"found by Gymnasium's check_env: .*render"):
        check_text_env(gymnasium.make(register(Speechless)))


def test_wrappers_are_checked_too() -> None:
    with pytest.raises(ContractError, match=r"two values of info\['episode'\]"):  # it holds the time
        check_text_env(RecordEpisodeStatistics(Counting()))


def test_what_is_no_environment_is_said_to_be_none() -> None:
    with pytest.raises(ContractError, match=r"found object, expected a gymnasium\.Env"):
        check_text_env(object())  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="FrozenLake-v1: found '' outside observation_space"):
        check_text_env(gymnasium.make("FrozenLake-v1"))


def test_a_contract_error_is_an_assertion_error_of_ours() -> None:
    assert {AssertionError, TurngymError} <= set(ContractError.__mro__)


def test_messages_stay_short() -> None:
    with pytest.raises(ContractError) as error:
        check_text_env(LongTextRaises())
    assert len(str(error.value)) < 200
    assert re.fullmatch(r"[ -~]+", str(error.value)), "printable on every terminal"
