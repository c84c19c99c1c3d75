"""CodeInterpreter: answer a question, with Python at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from turngym.envs.actions import ParseError
from turngym.envs.code_interpreter.grading import is_correct
from turngym.envs.code_interpreter.grammar import EXPECTED, STOP_STRINGS, Answer, Code, parse_reply
from turngym.envs.code_interpreter.judge import JudgeError
from turngym.envs.code_interpreter.kinds import LEVELS
from turngym.envs.code_interpreter.notebook import Notebook, Past, Session
from turngym.envs.code_interpreter.output import encodable, interpreter_text
from turngym.envs.code_interpreter.tasks import Problem, make_source
from turngym.envs.sandbox.results import Status
from turngym.envs.splits import Split, digest
from turngym.envs.text_env import EnvState, Event, TextEnv

Profile = Literal["stdlib", "math", "science"]
_LIBRARIES = {
    "stdlib": "standard library",
    "math": "standard library, NumPy and SymPy",
    "science": "standard library, NumPy, SymPy and SciPy",
}
_VOID = "The interpreter is out of order. This episode is void."


@dataclass(frozen=True)
class Cell:
    """A program that was run.

    Attributes:
        code: The program.
        status: How it ended.
        shown: What the model read of it.
        printed: The last line that it printed, as it was.
        lasts: Whether what it did to the variables lasts.
    """

    code: str
    status: Status
    shown: str
    printed: str
    lasts: bool


@dataclass(frozen=True)
class Board:
    """What has happened in an episode: the seed of its interpreter, the programs that were run, and the answer."""

    seed: int
    cells: tuple[Cell, ...] = ()
    answer: str | None = None

    @property
    def past(self) -> Past:
        """What the interpreter's session has behind it."""
        return Past(self.seed, tuple((cell.code, cell.status) for cell in self.cells if cell.lasts))

    @property
    def errors(self) -> int:
        """How many programs did not end well."""
        return sum(cell.status != "ok" for cell in self.cells)


@dataclass(frozen=True)
class InterpreterState(EnvState):
    """An episode as a value, and the live session that belongs to it while it stays in this process."""

    notebook: Notebook


class CodeInterpreterEnv(TextEnv):
    """Answer a question; run as much Python as the turns allow before.

    ## Description
    A reply either runs a program, and its output comes back, or answers, and the episode ends. Programs run in one
    session, so that variables last from one to the next, and in `turngym.envs.sandbox`, whose page says what that
    holds. The form is ReTool's (arXiv:2504.11536): nothing is earned by running code, be it good or bad.

    The questions are our own unless `dataset` names others: six families (arithmetic, number theory, combinatorics,
    sequences, dates, simulations) with arguments drawn for a level. Levels 0 and 1 are known by heart, and a program
    is a waste of a turn; 2 and 3 take pencil and paper; 4 and 5 are far beyond.

    ## Action Space
    A text. Either `<code>…</code>` with Python inside (a fenced block inside the tags is read too), or
    `<answer>…</answer>`; anything may stand before, such as a thought. The first closing tag with its opening tag
    before it decides, and what follows is ignored. A policy may stop sampling at `stop_strings`. Where neither tag is
    closed the reply is unreadable: nothing runs, the turn counts, the reward is `invalid_penalty`, which is 0 here.

    ## Observation Space
    A text: the question at first; then the output of the program between `<interpreter>` and `</interpreter>`, what was
    expected where the reply could not be read, or the verdict. Output is cut to `max_output` characters, half from its
    head and half from its tail; our tags, control tokens of chat templates, terminal escapes and control characters in
    it are made harmless. Notes of ours stand in square brackets.

    ## Starting State
    A question, and no interpreter: it is started for the first program, with random generators seeded from the
    episode's stream of luck.

    ## Rewards
    1 for the right answer, -1 for a wrong one and for none at all, 0 for a program. An answer that is a number must be
    written out, in any usual way (`1,234`, `42.0`, `3/4`, also in LaTeX's box): an expression of that value is wrong.

    ## Episode End
    Terminated by an answer, and after `max_turns` turns without one. Truncated where the sandbox itself failed, with
    `info["valid"]` False: nothing should be learned from such an episode.

    ## Information
    As in `TextEnv`, and at each step `interpreter`: `status` of the program of this turn (as in
    `turngym.envs.sandbox.Status`; "none" where none was run), and `calls` and `errors`, how many programs were run so
    far and how many of them did not end well; and `difficulty`, the question's level, None for a dataset's.
    `oracle_steps` counts turns.

    `get_state` holds on to the live session, and whoever runs something next branches off it; freed with the state. In
    a pickled copy the programs are run again. A program that the sandbox had to stop leaves no trace in the variables.
    `oracle_value` is exact: 1, as the oracle knows the answer. It runs a program first all the same, and reads the
    output, unless the question is one to know by heart. `random_action` is one of twenty replies, equally likely: the
    answers 0 to 9, and programs that print them.

    ## Arguments
    `tasks` (names of families, or "all") and `difficulty` (first and last level) choose among our own questions.
    `dataset` takes others: the path of a file with a JSON object a line (`question`, `answer`, perhaps `options` and a
    worked `solution`), or `"reasoning_gym:<name>"` (extra `code`). `timeout_s` limits a program (5 unless given),
    `max_output` what is shown of it (1000 characters), `profile` says which libraries are loaded already ("stdlib",
    "math", "science"), `sandbox` replaces the one that the process shares. And those of `TextEnv`; `max_turns` is 4
    unless given: two for a program and an answer, two more for a mistake.

    ## Transcript
    ```
    >>> import gymnasium, turngym
    >>> env = gymnasium.make("CodeInterpreter-v0")
    >>> observation, info = env.reset(seed=29)
    >>> print(observation)
    What is the sum of the decimal digits of 96 ** 1170?
    >>> observation, reward, terminated, truncated, info = env.step("It is 10000, I think.")
    >>> print(observation)
    I found neither code nor an answer. Reply with <code>Python to run</code> or with <answer>your answer</answer>.
    >>> reward, terminated, info["interpreter"]
    (0.0, False, {'status': 'none', 'calls': 0, 'errors': 0})
    >>> observation, reward, terminated, truncated, info = env.step("<code>sum(96 ** 1170)</code>")
    >>> print(observation)
    <interpreter>
    Traceback (most recent call last):
      File "<cell 1>", line 1, in <module>
        sum(96 ** 1170)
    TypeError: 'int' object is not iterable
    </interpreter>
    >>> reward, terminated, info["interpreter"]
    (0.0, False, {'status': 'error', 'calls': 1, 'errors': 1})
    >>> observation, reward, terminated, truncated, info = env.step("<code>sum(map(int, str(96 ** 1170)))</code>")
    >>> print(observation)
    <interpreter>
    10584
    </interpreter>
    >>> reward, terminated, info["interpreter"]
    (0.0, False, {'status': 'ok', 'calls': 2, 'errors': 1})
    >>> observation, reward, terminated, truncated, info = env.step("Thus <answer>10,584</answer>")
    >>> print(observation)
    That is right.
    >>> reward, terminated, info["interpreter"]
    (1.0, True, {'status': 'none', 'calls': 2, 'errors': 1})
    >>> env.close()
    ```

    ## Version History
    - v0: first release.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  # as Gymnasium
    limit_terminates = True
    limit_reward = -1.0

    stop_strings: ClassVar[tuple[str, ...]] = STOP_STRINGS
    """Texts that end a reply: a policy may stop sampling after them."""

    reply_tokens = 160
    """How many tokens of the `tiny` model a reply may need: it spells out the longest program of ours."""

    def __init__(
        self,
        *,
        tasks: str | Sequence[str] = "all",
        difficulty: tuple[int, int] = (LEVELS[0], LEVELS[-1]),
        dataset: str | Path | None = None,
        timeout_s: float = 5.0,
        max_output: int = 1000,
        profile: Profile = "stdlib",
        sandbox: Any = None,
        max_turns: int | str = 4,
        split: Split = "train",
        invalid_penalty: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, invalid_penalty=invalid_penalty, render_mode=render_mode)
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be above 0, got {timeout_s}")
        if max_output < 2:
            raise ValueError(f"max_output must be at least 2, got {max_output}")
        if profile not in _LIBRARIES:
            raise ValueError(f"profile must be one of {', '.join(_LIBRARIES)}, got {profile!r}")
        self.profile, self.timeout_s, self.max_output = profile, timeout_s, max_output
        self.instructions = _instructions(profile, timeout_s)
        self._source, self._sandbox = make_source(tasks, difficulty, dataset), sandbox
        self._notebook = Notebook(timeout_s)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn; the info also tells of the `interpreter`."""
        before = len(self._board.cells) if not self._over else 0
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            self._notebook.close()  # hundreds of environments may wait for their next episode
        cells = self._board.cells
        status = cells[-1].status if len(cells) > before else "none" if info.get("valid", True) else "sandbox_error"
        info["interpreter"] = {"status": status, "calls": len(cells), "errors": self._board.errors}
        info["difficulty"] = self._level.difficulty
        return observation, reward, terminated, truncated, info

    def get_state(self) -> InterpreterState:
        """The episode as a value, which keeps the interpreter's session alive as long as it lives itself."""
        return InterpreterState(**vars(super().get_state()), notebook=self._notebook.share())

    def set_state(self, state: EnvState) -> tuple[str, dict[str, Any]]:
        """Go on from `state`, on a branch of its session or, where that is gone, by running its programs again."""
        if isinstance(state, InterpreterState):
            self._notebook.adopt(state.notebook)
        return super().set_state(state)

    def close(self) -> None:
        """End the interpreter's session."""
        self._notebook.close()
        super().close()

    # What an environment writes ------------------------------------------------------------------------------------

    def _generate(self, rng: np.random.Generator) -> Problem:
        return self._source.draw(rng)

    def _canonical(self, level: Problem) -> str:
        return level.key

    def _level_text(self, level: Problem) -> str:
        return level.question

    def _optimum(self, level: Problem) -> int:
        return 1 if level.by_heart else 2

    def _first_board(self, level: Problem) -> Board:
        self._notebook.close()
        assert self._noise is not None, "reset sets it first"
        return Board(seed=int(self._noise.integers(2**31)))

    def _parse(self, action: str) -> Code | Answer | ParseError:
        return parse_reply(action)

    def _expected(self) -> str:
        return EXPECTED

    def _apply(self, parsed: Code | Answer) -> Event:
        return self._run(encodable(parsed.source)) if isinstance(parsed, Code) else self._judge(parsed.text)

    def _run(self, code: str) -> Event:
        sandbox = self._interpreter()  # a machine that cannot have one says so: that is no failure of an episode

        def open_session(seed: int) -> Session:
            return cast(Session, sandbox.session(profile=self.profile, seed=seed))

        result, lasts, forgot = self._notebook.run(self._board.past, code, open_session)
        if not result.valid:
            return Event(feedback=_VOID, is_void=True)
        shown = interpreter_text(result, kept=lasts, forgot=forgot, limit=self.max_output)
        printed = (result.stdout.splitlines() or [""])[-1].strip()
        cell = Cell(code, result.status, shown, printed, lasts)
        earlier = tuple(replace(each, lasts=each.lasts and not forgot) for each in self._board.cells)
        self._board = replace(self._board, cells=(*earlier, cell))
        return Event(feedback=shown, moves=1)

    def _judge(self, answer: str) -> Event:
        try:
            success = is_correct(answer, self._level.answer, self._level.grader)
        except JudgeError:
            return Event(feedback=_VOID, is_void=True)
        self._board = replace(self._board, answer=encodable(answer))
        told = "That is right." if success else "That is wrong."
        return Event(1.0 if success else -1.0, told, terminated=True, success=success, moves=1)

    def _interpreter(self) -> Any:
        if self._sandbox is not None:
            return self._sandbox
        from turngym.envs.sandbox import default_sandbox  # starts processes: not before there is code to run

        return default_sandbox()

    def _describe(self) -> str:
        """The whole exchange: two states are the same where the model has read and written the same."""
        turns = (f"<code>\n{cell.code}\n</code>\n{cell.shown}" for cell in self._board.cells)
        answer = [] if self._board.answer is None else [f"<answer>{self._board.answer}</answer>"]
        return "\n".join((self._level.question, *turns, *answer))

    def _shown(self) -> tuple[str, str]:
        """What is new alone: the policy keeps what it has read, and the question with it."""
        return self._feedback or self._level.question, digest(self._describe())

    # What agents and wrappers may ask ------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The question of this episode and its answer: for whoever makes demonstrations, never for a policy."""
        problem: Problem = self._level
        return problem

    def oracle_action(self) -> str | None:
        """The program that finds the answer, then what it printed; at once where that is known by heart."""
        if self._over:
            return None
        level, cells = self._level, self._board.cells
        if not level.by_heart and self.turns_left > 1 and not any(cell.code == level.program for cell in cells):
            return f"<code>\n{level.program}\n</code>"
        read = cells[-1].printed if cells else ""
        return f"<answer>{read if is_correct(read, level.answer) else level.answer}</answer>"

    def oracle_value(self) -> float | None:
        """1: the oracle knows the answer; 0 at the end."""
        return 0.0 if self._over else 1.0

    def oracle_thought(self) -> str:
        """Whether to compute, to read or to know."""
        action = self.oracle_action()
        if action is None:
            return ""
        if action.startswith("<code>"):
            return "a program will tell"
        return "the output tells" if self._board.cells else "I know this"

    def random_action(self, rng: np.random.Generator) -> str:
        """One of twenty replies: the answers 0 to 9, and programs that print them."""
        kind, digit = divmod(int(rng.integers(20)), 10)
        return f"<code>print({digit})</code>" if kind else f"<answer>{digit}</answer>"


def _instructions(profile: Profile, timeout_s: float) -> str:
    return (
        f"Answer the question. <code>Python</code> runs a program ({_LIBRARIES[profile]}; {timeout_s:g} seconds; no "
        "input, no network; variables last) and shows what it prints inside <interpreter></interpreter>. "
        "<answer>your answer</answer> is final: write a number out, not as an expression."
    )
