"""The text-environment contract as a test that others can run: `check_text_env(env)`.

One function a rule, in the order in which they run; each says what was found and what is expected.
"""

import math
import pickle
import random
import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector.utils import create_shared_memory

from turngym.envs.errors import ContractError
from turngym.envs.probe import Probe, Turn, kind_of, short

GARBAGE = (
    "",
    " \n\t ",
    "\x00",
    "\ud800",
    "√ 你好 \U0001f9ca\u202e",
    "||",
    "<think></answer>",
    "{}[]()%s%n{0}",
    "-1",
    "x" * 100_000,
)
"""What a model may write by mistake: nothing, blanks, NUL, half a surrogate pair, other scripts, tags, far too much."""

_STEP_INFO: dict[str, type] = {"action_is_valid": bool, "action_is_effective": bool, "success": bool, "state_key": str}
_RESET_INFO: dict[str, type] = {"level_id": str, "instructions": str, "state_key": str}
_SEEDS = (0, 1, 2)
_BRANCH_AFTER = 2
_MAX_LEGAL = 64
_QUESTIONS = ("oracle_action", "oracle_value", "oracle_thought", "legal_actions", "get_state")


def check_text_env(env: gymnasium.Env[Any, Any]) -> None:
    """Check that an environment, ours or anyone's, keeps the text-environment contract.

    Run it on what `gymnasium.make` returns: an environment with a spec is also checked in every render mode. Wrappers
    are checked as part of it. The environment is played, so use a fresh one, and close it afterwards.

    Args:
        env: The environment.

    Raises:
        ContractError: At the first rule that is broken; the message says what was found and what is expected.
    """
    if not isinstance(env, gymnasium.Env):
        raise ContractError(f"found {type(env).__name__}, expected a gymnasium.Env")
    probe = Probe(env)
    _check_spaces(probe)
    _check_gymnasium_rules(env)
    for rule in (
        _check_instructions,
        _check_infos,
        _check_garbage,
        _check_turn_limit,
        _check_same_seed,
        _check_global_randomness,
        _check_nothing_shared,
        _check_random_action,
        _check_state,
        _check_legal_actions,
        _check_questions,
        _check_oracle,
    ):
        rule(probe)


def _check_spaces(probe: Probe) -> None:
    """Any text is a member, spaces survive pickling, and shared memory is refused rather than filled with garbage."""
    for name, space in (("observation_space", probe.observation_space), ("action_space", probe.action_space)):
        for text in GARBAGE:
            if text not in space:
                probe.fail(f"{short(text)} outside {name}", "any text inside: use turngym.envs.text_env.TextSpace")
        with probe.named(f"pickling {name}"):
            copy = pickle.loads(pickle.dumps(space))
        if copy != space:
            probe.fail(f"{name} changed by pickling", "an equal space")
    try:
        create_shared_memory(probe.observation_space)
    except CustomSpaceError:
        return
    probe.fail(
        "an observation_space that AsyncVectorEnv(shared_memory=True) takes, to return garbage ever after",
        "one that refuses, as turngym.envs.text_env.TextSpace does",
    )


def _check_gymnasium_rules(env: gymnasium.Env[Any, Any]) -> None:
    """Gymnasium's own checker, with warnings as errors; without a spec it cannot try render modes and closing."""
    bare = env.unwrapped
    name = bare.spec.id if bare.spec is not None else type(bare).__name__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(bare, skip_render_check=bare.spec is None, skip_close_check=bare.spec is None)
    except Exception as error:
        raise ContractError(f"{name}: found by Gymnasium's check_env: {error}; expected no complaint") from error


def _check_instructions(probe: Probe) -> None:
    """The rules of the game: one text for all levels, as an attribute and in the info of reset."""
    told = probe.attribute("instructions", "a str with rules, legend and action grammar")
    if not isinstance(told, str) or not told.strip():
        probe.fail(f"instructions {told!r}", "a non-empty str with rules, legend and action grammar")
    for seed in _SEEDS:
        given = probe.reset(seed).info.get("instructions")
        if given != told:
            found = f"info['instructions'] {short(str(given))} at reset(seed={seed})"
            probe.fail(found, "the attribute `instructions`")


def _check_infos(probe: Probe) -> None:
    """The keys that agents, wrappers and logs rely on, with their types."""
    probe.attribute("random_action", "a hook random_action(rng) -> str, uniform over valid actions")
    for seed in _SEEDS:
        first, *turns = probe.play(seed)
        _check_keys(probe, first.info, _RESET_INFO, "reset")
        if type(first.info.get("oracle_steps", 0)) is not int and first.info["oracle_steps"] is not None:
            probe.fail(f"info['oracle_steps'] {first.info['oracle_steps']!r} at reset", "an int, or None where unknown")
        for turn in turns:
            _check_keys(probe, turn.info, _STEP_INFO, "step")
            if type(turn.info.get("moves", 0)) is not int:
                probe.fail(f"info['moves'] {turn.info['moves']!r} at step", "an int")
            if not math.isfinite(turn.reward):
                probe.fail(f"a reward of {turn.reward}", "a finite number")


def _check_keys(probe: Probe, info: dict[str, Any], keys: dict[str, type], call: str) -> None:
    for key, kind in keys.items():
        if key not in info:
            probe.fail(f"no info[{key!r}] at {call}, but {sorted(info)}", f"a {kind.__name__}")
        if type(info[key]) is not kind:
            probe.fail(f"info[{key!r}] of type {kind_of(info[key])} at {call}", f"a {kind.__name__}")


def _check_garbage(probe: Probe) -> None:
    """What cannot be read costs a turn and does nothing else: it neither raises nor ends the episode."""
    for text in GARBAGE:
        before = probe.reset(_SEEDS[0])
        is_last = probe.turns_left() == 1
        turn = probe.step(text)
        _check_keys(probe, turn.info, _STEP_INFO, f"step({short(text)})")
        if turn.info["action_is_valid"]:
            continue
        if turn.over and not is_last:
            probe.fail(f"the episode ended by the unreadable action {short(text)}", "a turn without a move")
        if turn.info["state_key"] != before.info["state_key"] or turn.info["action_is_effective"]:
            probe.fail(f"the board changed by the unreadable action {short(text)}", "a turn without a move")
        if turn.info["success"]:
            probe.fail(f"success by the unreadable action {short(text)}", "a turn without a move")


def _check_turn_limit(probe: Probe) -> None:
    """An episode of somebody who writes nothing comes to an end too, and `turns_left` counts down to it."""
    probe.reset(_SEEDS[0])
    counts = [probe.turns_left()]
    while not probe.step("").over:
        counts.append(probe.turns_left())
    if counts[0] is not None and counts != list(range(counts[0], 0, -1)):
        probe.fail(f"turns_left {counts[:5]} before {len(counts)} turns", "a count of the turns still to come")


def _check_same_seed(probe: Probe) -> None:
    """The same seed and actions give the same episode, whatever was played before."""
    expected = "the same episode for the same seed and actions (no time, no process id, no global randomness)"
    records = [probe.play(seed) for seed in _SEEDS]
    for seed, record in zip(_SEEDS, records, strict=True):
        _check_same(probe, record, probe.play(seed), expected)


def _check_same(probe: Probe, first: list[Turn], second: list[Turn], expected: str) -> None:
    """Two records of the same episode must agree in everything; names the first thing that differs."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        for part in ("observation", "reward", "terminated", "truncated"):
            if getattr(one, part) != getattr(other, part):
                found = f"{short(str(getattr(one, part)))} and {short(str(getattr(other, part)))}"
                probe.fail(f"two {part}s at turn {index} of one episode, {found}", expected)
        for key in sorted(one.info.keys() | other.info.keys()):
            if not data_equivalence(one.info.get(key), other.info.get(key), exact=True):
                found = f"{short(str(one.info.get(key)))} and {short(str(other.info.get(key)))}"
                probe.fail(f"two values of info[{key!r}] at turn {index} of one episode, {found}", expected)
    if len(first) != len(second):
        probe.fail(f"an episode of {len(first) - 1} turns and again of {len(second) - 1}", expected)


def _check_global_randomness(probe: Probe) -> None:
    """Randomness is the environment's own: playing moves neither Python's global generator nor NumPy's."""
    before = pickle.dumps((random.getstate(), np.random.get_state()))
    probe.reset()
    probe.play(_SEEDS[0])
    if pickle.dumps((random.getstate(), np.random.get_state())) != before:
        probe.fail("a global random generator moved by an episode", "draws from self.np_random and streams of your own")


def _check_nothing_shared(probe: Probe) -> None:
    """What one call returned is not changed by a later one."""
    records = [*probe.play(_SEEDS[0]), *probe.play(_SEEDS[0])]
    owners = [(turn, {id(value) for value in _mutables(turn.info)}) for turn in records[:50] + records[-50:]]
    for (one, mine), (other, theirs) in combinations(owners, 2):
        if one is not other and mine & theirs:
            shared = [key for key, value in other.info.items() if {id(part) for part in _mutables(value)} & mine]
            found = f"an object in info[{shared[0]!r}]" if shared else "an info"
            probe.fail(f"{found} returned by two calls", "a new object at every call")


def _mutables(value: Any) -> Iterator[Any]:
    """Every mutable part of nested data, itself included."""
    if isinstance(value, dict | list | set | bytearray | np.ndarray):
        yield value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _mutables(part)


def _check_random_action(probe: Probe) -> None:
    """`random_action(rng)` is valid wherever it is asked, and its draws come from `rng` alone."""
    for seed in _SEEDS:
        probe.reset(seed)
        once, again = ([probe.draw(rng) for _ in range(8)] for rng in (np.random.default_rng(7) for _ in range(2)))
        if once != again:
            probe.fail(f"{once} and {again} from random_action with equal rngs", "draws from rng alone")
        rng = np.random.default_rng(seed)
        for _ in range(20):
            action = probe.draw(rng)
            turn = probe.step(action)
            _check_valid(probe, action, turn, "random_action")
            if turn.over:
                break


def _check_valid(probe: Probe, action: str, turn: Turn, hook: str) -> None:
    if not turn.info["action_is_valid"]:
        probe.fail(f"info['action_is_valid'] False for {short(action)} from {hook}", "only valid actions from it")


def _check_state(probe: Probe) -> None:
    """`set_state(get_state())` goes on exactly: after other branches, after the end, and through pickle."""
    for hook in ("get_state", "set_state"):
        probe.attribute(hook, "get_state() -> state and set_state(state) -> (observation, info), exact and picklable")
    for seed in _SEEDS:
        last = probe.play(seed, turns=_BRANCH_AFTER)[-1]
        if last.over:
            last = probe.reset(seed)
        state = probe.ask("get_state")
        with probe.named("pickling get_state()"):
            frozen = pickle.dumps(state)
        idle, first = _branch(probe, last, state), _branch(probe, last, state, draws=0)
        _branch(probe, last, state, draws=1)
        expected = "set_state(state) to go on exactly from there"
        _check_same(probe, first, _branch(probe, last, state, draws=0), expected)
        _check_same(probe, idle, _branch(probe, last, state), expected)
        again = _branch(probe, last, pickle.loads(frozen), draws=0)
        _check_same(probe, first, again, "a state to survive pickling and other branches")


def _branch(probe: Probe, last: Turn, state: Any, draws: int | None = None) -> list[Turn]:
    """Go back to a state, and play on to the end and through the reset that follows, which tells of the streams.

    With `draws` by random actions of that seed, without by saying nothing, which tells of the turns.
    """
    observation, info = probe.ask("set_state", state)
    if observation != last.observation:
        found = f"{short(str(observation))} from set_state"
        probe.fail(found, f"the observation that stood there, {short(last.observation)}")
    if info.get("state_key") != last.info["state_key"]:
        found = f"info['state_key'] {info.get('state_key')!r} from set_state"
        probe.fail(found, f"that of the board which stood there, {last.info['state_key']!r}")
    rng, record = np.random.default_rng(draws), [last]
    while not record[-1].over or len(record) == 1:
        record.append(probe.step("" if draws is None else probe.draw(rng)))
    return [*record, probe.reset()]


def _check_legal_actions(probe: Probe) -> None:
    """Every action that `legal_actions()` lists is valid; None says that they cannot be listed."""
    if not probe.has("legal_actions"):
        return
    for seed in _SEEDS:
        probe.reset(seed)
        state, actions = probe.ask("get_state"), probe.ask("legal_actions")
        if actions is None:
            return
        if not isinstance(actions, list) or not actions or not all(isinstance(action, str) for action in actions):
            probe.fail(f"legal_actions() {short(str(actions))}", "a non-empty list of str, or None")
        for action in actions[:_MAX_LEGAL]:
            probe.ask("set_state", state)
            _check_valid(probe, action, probe.step(action), "legal_actions")


def _check_questions(probe: Probe) -> None:
    """Asking changes nothing: an episode with every hook called at every turn is the episode without."""
    hooks = [hook for hook in _QUESTIONS if probe.has(hook)]
    for seed in _SEEDS:
        quiet = probe.play(seed)
        rng, asked = np.random.default_rng(seed), [probe.reset(seed)]
        while not asked[-1].over:
            for hook in hooks:
                probe.ask(hook)
            probe.draw(np.random.default_rng(0))
            probe.render()
            asked.append(probe.step(probe.draw(rng)))
        _check_same(probe, quiet, asked, f"{', '.join(hooks)}, random_action and render to change nothing")


def _check_oracle(probe: Probe) -> None:
    """The oracle's actions are valid, and lead to success wherever `oracle_value` promises 1."""
    if not probe.has("oracle_action"):
        return
    for seed in range(10):
        turn = probe.reset(seed)
        value = probe.ask("oracle_value") if probe.has("oracle_value") else None
        if value is not None and not (isinstance(value, float | int) and math.isfinite(value)):
            probe.fail(f"oracle_value() {value!r}", "a finite number, or None")
        while not turn.over:
            action = probe.ask("oracle_action")
            if action is None:
                break
            turn = probe.step(action)
            _check_valid(probe, action, turn, "oracle_action")
        if value is not None and abs(value - 1) < 1e-9 and not turn.info.get("success", False):
            probe.fail(f"no success from the oracle's actions at seed {seed}", "success where oracle_value() is 1")
