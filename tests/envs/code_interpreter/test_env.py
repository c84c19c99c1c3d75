"""The environment: turns, rewards, what the model reads, and the interpreter's state."""

import contextlib
import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
import pytest

from turngym.agents.trajectory import Trajectory
from turngym.envs.code_interpreter import env as module
from turngym.envs.code_interpreter.env import CodeInterpreterEnv
from turngym.envs.code_interpreter.grammar import EXPECTED
from turngym.envs.code_interpreter.judge import JudgeError
from turngym.envs.errors import SandboxError
from turngym.envs.splits import split_of

ANSWER = "10584"  # of seed 29


def run(env: Any, code: str) -> tuple[str, dict[str, Any]]:
    observation, reward, terminated, truncated, info = env.step(f"<code>{code}</code>")
    assert (reward, terminated) == (0.0, False)
    assert not truncated
    return observation, info


def inside(observation: str) -> str:
    opening, *lines, closing = observation.splitlines()
    assert (opening, closing) == ("<interpreter>", "</interpreter>")
    return "\n".join(lines)


def test_a_program_earns_nothing_and_an_answer_all(env: CodeInterpreterEnv) -> None:
    observation, info = run(env, "print(6 * 7)")
    assert inside(observation) == "42"
    assert (info["action_is_valid"], info["action_is_effective"], info["moves"]) == (True, True, 1)
    assert "valid" not in info
    observation, reward, terminated, truncated, info = env.step(f"<answer>{ANSWER}</answer>")
    assert (observation, reward, terminated, truncated) == ("That is right.", 1.0, True, False)
    assert info["success"] is True


def test_a_wrong_answer_ends_the_episode(env: CodeInterpreterEnv) -> None:
    observation, reward, terminated, truncated, info = env.step("<answer>1</answer>")
    assert (observation, reward, terminated, truncated) == ("That is wrong.", -1.0, True, False)
    assert info["success"] is False
    assert ANSWER not in observation


@pytest.mark.parametrize("last", ["<code>print(1)</code>", "I do not know.", ""])
@pytest.mark.parametrize("penalty", [0.0, -0.1])
def test_no_answer_is_a_wrong_answer(fake: Any, last: str, penalty: float) -> None:
    env = CodeInterpreterEnv(sandbox=fake, max_turns=2, invalid_penalty=penalty)
    env.reset(seed=29)
    assert env.step("<code>print(1)</code>")[1:4] == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(last)
    assert reward == -1.0 + penalty * ("code" not in last)
    assert (terminated, truncated, info["success"]) == (True, False, False)
    assert observation


def test_an_answer_on_the_last_turn_counts_once(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake, max_turns=1)
    env.reset(seed=29)
    assert env.step("<answer>1</answer>")[1:4] == (-1.0, True, False)
    env.reset(seed=29)
    assert env.step(f"<answer>{ANSWER}</answer>")[1:4] == (1.0, True, False)


def test_what_cannot_be_read_costs_a_turn(env: CodeInterpreterEnv, fake: Any) -> None:
    observation, reward, terminated, truncated, info = env.step("42")
    assert observation == f"I found neither code nor an answer. {EXPECTED}"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert (info["action_is_valid"], info["action_is_effective"]) == (False, False)
    assert info["interpreter"] == {"status": "none", "calls": 0, "errors": 0}
    assert not fake.sessions


def test_the_interpreter_is_counted(env: CodeInterpreterEnv) -> None:
    codes = ("x = 1", "1 / 0", "timeout", "print(x)", "raise SystemExit")
    told = [run(env, code)[1]["interpreter"] for code in codes]
    env.step("nothing")
    told.append(env.step("<answer>1</answer>")[4]["interpreter"])
    assert [one["status"] for one in told] == ["ok", "error", "timeout", "ok", "exit", "none"]
    assert [one["calls"] for one in told] == [1, 2, 3, 4, 5, 5]
    assert [one["errors"] for one in told] == [0, 1, 2, 2, 3, 3]


def test_variables_last_within_an_episode(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 5")
    run(env, "1 / 0")
    assert inside(run(env, "print(x)")[0]) == "5"
    assert (len(fake.sessions), fake.alive) == (1, 1)
    env.reset(seed=29)
    assert fake.alive == 0
    assert inside(run(env, "print(x)")[0]) == "NameError: name 'x' is not defined"


@pytest.mark.parametrize("end", ["timeout", "oom", "crashed", "killed", "output_limit"])
def test_a_program_that_had_to_be_stopped_leaves_no_trace(env: CodeInterpreterEnv, fake: Any, end: str) -> None:
    run(env, "x = [5]")
    run(env, "x.append(1 / 0)")
    observation, info = run(env, end)
    assert info["interpreter"]["status"] == end
    assert inside(observation).splitlines()[-1].endswith("variables are as they were before this program]")
    assert fake.alive == 0
    assert inside(run(env, "print(x)")[0]) == "[5]"
    assert fake.ran == ["x = [5]", "x.append(1 / 0)", end, "x = [5]", "x.append(1 / 0)", "print(x)"]
    assert fake.alive == 1


def test_no_session_before_the_first_program_and_none_after_closing(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake)
    for seed in range(3):
        env.reset(seed=seed)
        env.get_state()
        env.step("hm")
    env.close()
    assert not fake.sessions
    env.reset(seed=0)
    run(env, "print(1)")
    assert fake.alive == 1
    env.close()
    env.close()
    assert fake.alive == 0


@pytest.mark.parametrize("last", ["<answer>1</answer>", "<code>2</code>", "no"])
def test_no_session_after_the_end_but_that_of_a_state(fake: Any, last: str) -> None:
    env = CodeInterpreterEnv(sandbox=fake, max_turns=2)
    env.reset(seed=29)
    run(env, "x = 1")
    state = env.get_state()
    assert env.step(last)[2]
    assert fake.alive == 1
    env.set_state(state)
    observation, reward, *_ = env.step("<code>print(x)</code>")
    assert (inside(observation), reward) == ("1", -1.0)
    assert fake.ran.count("x = 1") == 1


def test_the_session_is_seeded_from_the_luck_of_the_episode(fake: Any) -> None:
    env, seeds = CodeInterpreterEnv(sandbox=fake), []
    for seed, noise_seed in ((3, None), (3, None), (3, 8), (3, 8), (4, None)):
        env.reset(seed=seed, options=None if noise_seed is None else {"noise_seed": noise_seed})
        run(env, "1")
        seeds.append(fake.sessions[-1].seed)
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4] != seeds[0]


# Failures of ours ----------------------------------------------------------------------------------------------------


def check_void(env: Any, reply: str) -> None:
    observation, reward, terminated, truncated, info = env.step(reply)
    assert observation == "The interpreter is out of order. This episode is void."
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["valid"], info["success"], info["action_is_valid"]) == (False, False, True)
    assert info["interpreter"]["status"] == "sandbox_error"
    trajectory = Trajectory(state_keys=[""])
    for told in ({"success": False}, info, {"success": True}):
        trajectory.record_turn(0.0, told)
    assert trajectory.valid is False


def test_a_failure_of_the_sandbox_voids_the_episode(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 1")
    fake.next_statuses = ["sandbox_error", None, "sandbox_error"]  # the program, the past again, the program again
    check_void(env, "<code>print(x)</code>")
    assert fake.alive == 0
    env.reset(seed=29)
    run(env, "print(1)")


def test_a_failure_on_the_last_turn_is_no_wrong_answer(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake, max_turns=1)
    env.reset(seed=29)
    check_void(env, "<code>sandbox_error</code>")


def test_a_failure_of_the_sandbox_is_tried_again_first(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 7")
    fake.next_statuses = ["sandbox_error"]
    assert inside(run(env, "print(x)")[0]) == "7"
    fake.sessions[-1].closed = False
    env.reset(seed=29)
    fake.refusals = 1
    assert inside(run(env, "print(8)")[0]) == "8"
    env.reset(seed=29)
    fake.refusals = 2
    check_void(env, "<code>print(8)</code>")


def test_a_past_that_breaks_the_sandbox_is_tried_again_too(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 7")
    run(env, "crashed")
    fake.next_statuses = ["sandbox_error"]
    assert inside(run(env, "print(x)")[0]) == "7"
    run(env, "crashed")
    fake.next_statuses = ["sandbox_error", "sandbox_error"]
    check_void(env, "<code>print(x)</code>")
    assert fake.alive == 0


def test_programs_that_end_differently_again_lose_their_variables_and_void_nothing(
    env: CodeInterpreterEnv, fake: Any
) -> None:
    run(env, "x = 7")
    run(env, "y = 8")
    run(env, "crashed")
    fake.next_statuses = [None, "error"]
    *told, note = inside(run(env, "print(x)")[0]).splitlines()
    assert told == ["NameError: name 'x' is not defined"]
    assert note.startswith("[earlier programs ended differently when they had to be run again")
    run(env, "z = 9")
    run(env, "crashed")
    fake.ran.clear()
    assert inside(run(env, "print(z)")[0]) == "9"
    assert fake.ran == ["print(x)", "z = 9", "print(z)"], "the lost ones are not run again"


def test_a_failure_of_the_judge_voids_the_episode(env: CodeInterpreterEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise JudgeError("no judge today")

    monkeypatch.setattr(module, "is_correct", fail)
    check_void(env, "<answer>1</answer>")


def test_a_machine_without_isolation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import turngym.envs.sandbox as sandbox

    def refuse() -> None:
        raise SandboxError("tier C needs allow_unsafe=True")

    monkeypatch.setattr(sandbox, "default_sandbox", refuse)
    env = CodeInterpreterEnv()
    env.reset(seed=29)
    env.step("no code yet")
    with pytest.raises(SandboxError, match="allow_unsafe"):
        env.step("<code>print(1)</code>")
    env.reset(seed=29)
    assert env.step(f"<answer>{ANSWER}</answer>")[1] == 1.0


# State ---------------------------------------------------------------------------------------------------------------


def test_states_branch_the_live_session(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = [1]")
    state = env.get_state()
    first, _ = run(env, "x.append(2); print(x)")
    for _ in range(3):
        env.set_state(state)
        assert run(env, "x.append(2); print(x)")[0] == first
    assert fake.ran.count("x = [1]") == 1, "nothing was run again"
    assert fake.alive == 2  # the state's and the environment's
    del state
    gc.collect()
    env.close()
    assert fake.alive <= 1  # a real session ends by itself once nobody holds it


def test_a_state_costs_nothing_until_something_is_run(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 1")
    states = [env.get_state() for _ in range(10)]
    for state in states:
        env.set_state(state)
    assert len(fake.sessions) == 1
    del states, state
    gc.collect()
    run(env, "x += 1")
    assert len(fake.sessions) == 1, "nobody else holds it any more"


def test_the_past_is_run_again_where_a_session_cannot_branch(env: CodeInterpreterEnv, fake: Any) -> None:
    fake.can_branch = False
    run(env, "x = 1")
    state = env.get_state()
    run(env, "x = 2")
    env.set_state(state)
    assert inside(run(env, "print(x)")[0]) == "1"
    assert fake.ran.count("x = 1") == 3  # once more for either side


def test_a_pickled_state_goes_on_in_another_environment(env: CodeInterpreterEnv, fake: Any) -> None:
    run(env, "x = 3")
    run(env, "crashed")
    run(env, "x += 1")
    state = env.get_state()
    text = pickle.dumps(state)
    expected = run(env, "print(x)")
    other = CodeInterpreterEnv(sandbox=fake, max_turns=20)
    observation, info = other.set_state(pickle.loads(text))
    assert observation == env.set_state(state)[0]
    assert set(info) == {"state_key"}
    assert run(other, "print(x)") == expected == run(env, "print(x)")
    assert other.turns_left == env.turns_left


def test_states_of_one_session_in_several_threads(needs_sandbox: None) -> None:
    env = CodeInterpreterEnv(max_turns=20)
    env.reset(seed=29)
    run(env, "x = [0]")
    state = env.get_state()

    def play(number: int) -> str:
        mine = CodeInterpreterEnv(max_turns=20)
        mine.set_state(state)
        run(mine, f"x.append({number})")
        told = inside(run(mine, "x")[0])
        mine.close()
        return told

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(16))) == [f"[0, {number}]" for number in range(16)]
    assert inside(run(env, "x")[0]) == "[0]"
    env.close()


def test_a_copied_environment_goes_on_by_itself(needs_sandbox: None) -> None:
    env = CodeInterpreterEnv(max_turns=20)
    env.reset(seed=29)
    run(env, "x = [1]")
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    run(env, "x.append(2)")
    for one in copies:
        assert inside(run(one, "x")[0]) == "[1]"
        one.close()
    assert inside(run(env, "x")[0]) == "[1, 2]"
    env.close()


def test_state_keys_follow_what_was_read_and_written(env: CodeInterpreterEnv) -> None:
    _, first = env.reset(seed=29)
    assert env.step("hm")[4]["state_key"] == first["state_key"]
    one = run(env, "print(1)")[1]["state_key"]
    env.reset(seed=29)
    assert run(env, "print(2)")[1]["state_key"] != one
    env.reset(seed=29)
    assert run(env, "```python\nprint(1)\n```")[1]["state_key"] == one


# With the sandbox ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", [None, "A-", "B"])
def test_branches_in_the_sandbox(tier: str | None, needs_sandbox: None) -> None:
    from turngym.envs.sandbox import SyncSandbox

    with contextlib.ExitStack() as stack:
        try:
            sandbox = stack.enter_context(SyncSandbox(tier=tier)) if tier else None
        except SandboxError as error:
            pytest.skip(f"no tier {tier} here: {error}")
        env = CodeInterpreterEnv(max_turns=20, sandbox=sandbox)
        env.reset(seed=29)
        run(env, "import random\nx = random.random()")
        state = env.get_state()
        first = run(env, "(x, random.random())")
        env.set_state(state)
        assert run(env, "(x, random.random())") == first
        other = CodeInterpreterEnv(max_turns=20)
        other.set_state(pickle.loads(pickle.dumps(state)))
        assert run(other, "(x, random.random())") == first, "a replay draws the same numbers, whatever the tier"
        other.close()
        env.close()


def test_ends_in_the_sandbox(needs_sandbox: None) -> None:
    env = CodeInterpreterEnv(max_turns=20, timeout_s=1.0)
    env.reset(seed=29)
    run(env, "x = 7")
    for code, status in (
        ("import os; os._exit(0)", "exit"),
        ("while True: pass", "timeout"),
        ("import os; os.abort()", "crashed"),
        ("while True: print('x' * 10_000)", "output_limit"),
        ("1 +", "error"),
        ("input()", "error"),
    ):
        observation, info = run(env, code)
        assert info["interpreter"]["status"] == status, observation
        assert inside(run(env, "x")[0]) == "7"
    env.close()


def test_group_members_share_a_question_and_not_their_luck(needs_sandbox: None) -> None:
    env, told = CodeInterpreterEnv(), []
    for noise_seed in (1, 2, 1):
        env.reset(seed=5, options={"noise_seed": noise_seed})
        told.append(run(env, "import random; random.random()")[0])
    assert told[0] == told[2] != told[1]
    env.close()


# Hooks ---------------------------------------------------------------------------------------------------------------


def test_the_oracle_answers_by_heart_or_runs_its_program(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake)
    for seed in range(30):
        _, info = env.reset(seed=seed)
        replies = []
        assert env.oracle_value() == 1.0
        while (action := env.oracle_action()) is not None:
            assert env.oracle_thought()
            replies.append(action)
            turn = env.step(action)
        assert turn[1] == 1.0
        assert len(replies) == info["oracle_steps"] == (1 if env._level.by_heart else 2)
        assert (env.oracle_value(), env.oracle_thought()) == (0.0, "")


def test_the_oracle_reads_what_was_printed_if_it_is_right(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake, difficulty=(4, 4))
    env.reset(seed=1)
    env._level = module.replace(env._level, program="print('007' if False else 'x')", answer="7")
    env.step(env.oracle_action() or "")
    assert env.oracle_action() == "<answer>7</answer>", "what was printed is wrong"
    env.reset(seed=1)
    env._level = module.replace(env._level, program="print('so:'); print('7.0')", answer="7")
    env.step(env.oracle_action() or "")
    assert env.oracle_action() == "<answer>7.0</answer>"


def test_the_oracle_answers_on_the_last_turn(fake: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake, max_turns=1, difficulty=(5, 5))
    env.reset(seed=1)
    assert env.step(env.oracle_action() or "")[1] == 1.0


def test_random_actions_are_twenty_replies(env: CodeInterpreterEnv) -> None:
    rng = np.random.default_rng(0)
    replies = [env.random_action(rng) for _ in range(4000)]
    kinds, counts = np.unique(replies, return_counts=True)
    assert len(kinds) == 20
    assert counts == pytest.approx(np.full(20, 200), abs=60)
    assert {f"<answer>{digit}</answer>" for digit in range(10)} < set(kinds)


def test_what_a_policy_is_told() -> None:
    env = CodeInterpreterEnv(profile="math", timeout_s=2.5)
    assert env.stop_strings == ("</code>", "</answer>")
    assert env.reply_tokens == 160
    assert "(standard library, NumPy and SymPy; 2.5 seconds; no input" in env.instructions
    assert env.legal_actions() is None
    with pytest.raises(NotImplementedError, match="has no array view"):
        env.as_array()


def test_longest_program_fits_into_a_reply() -> None:
    tiny = pytest.importorskip("turngym.agents.tiny")
    tokenizer = tiny.build_tokenizer()
    env = CodeInterpreterEnv()
    for seed in range(300):
        env.reset(seed=seed)
        for reply in (env.oracle_action(), f"<answer>{env._level.answer}</answer>"):
            assert len(tokenizer(reply)["input_ids"]) < env.reply_tokens


def test_make_takes_the_arguments() -> None:
    spec = gymnasium.envs.registration.EnvSpec(
        "Mine-v0", entry_point="turngym.envs.code_interpreter.env:CodeInterpreterEnv", kwargs={"tasks": "dates"}
    )
    env = spec.make(difficulty=(3, 5), split="test")
    assert env.reset(seed=0)[1]["oracle_steps"] == 2
    env.close()


def test_each_step_says_how_difficult_the_question_is(fake: Any, tmp_path: Any) -> None:
    env = CodeInterpreterEnv(sandbox=fake, difficulty=(3, 3))
    observation, _ = env.reset(seed=0)
    assert (env.problem.question, env.problem.difficulty) == (observation, 3)
    assert env.step("<code>1</code>")[-1]["difficulty"] == 3
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "How much is 2 + 3?", "answer": 5, "solution": "Two and three is five."}\n')
    split = split_of("how much is 2 + 3?")
    env = CodeInterpreterEnv(sandbox=fake, dataset=path, split=split)
    env.reset(seed=0)
    assert env.problem.solution == "Two and three is five."
    assert env.step("<answer>5</answer>")[-1]["difficulty"] is None
