"""Cold-start data: what is written solves the questions, and what is no good is found out."""

import contextlib
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from turngym.agents import tiny
from turngym.agents.templates import turn_format
from turngym.baselines import cold_start
from turngym.baselines.cold_start import Played, fault, main, split_solution
from turngym.baselines.demonstrations import load_demonstrations
from turngym.baselines.solutions import OTHER_PROGRAMS, TEMPLATES, TemplateAgent, inlined, last_line
from turngym.envs.code_interpreter.families import KINDS
from turngym.envs.code_interpreter.grading import is_correct
from turngym.envs.code_interpreter.grammar import Answer, parse_reply
from turngym.envs.code_interpreter.kinds import Kind
from turngym.envs.code_interpreter.tasks import Problem, pose
from turngym.envs.errors import SandboxError

FORM = turn_format(tiny.build_tokenizer())


@pytest.fixture(scope="module")
def sandbox() -> None:
    """Skip where this machine cannot isolate a program."""
    from turngym.envs.sandbox import default_sandbox

    try:
        default_sandbox()
    except SandboxError as error:
        pytest.skip(f"no sandbox here: {error}")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def solve(problem: Problem, template: str, seed: int) -> tuple[str, list[str]]:
    """The answer of a template, whose programs run here, and all its replies."""
    agent, observation, variables = TemplateAgent(problem, template, np.random.default_rng(seed)), "", {}
    replies = [agent.act(problem.question)]
    while not isinstance(parsed := parse_reply(replies[-1]), Answer):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(parsed.source, variables)
        observation = f"<interpreter>\n{printed.getvalue()}</interpreter>"
        replies.append(agent.act(observation))
    return parsed.text, replies


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_template_solves_every_kind_and_fits_into_a_reply(kind: Kind) -> None:
    for level in (kind.levels[0], min(4, kind.levels[-1])):
        problem = dataclasses.replace(pose(kind, np.random.default_rng([level]), level), by_heart=False)
        for template in TEMPLATES:
            for seed in range(2 if template in ("inline", "fenced") else 1):  # either of its programs
                answer, replies = solve(problem, template, seed)
                assert is_correct(answer, problem.answer), (template, replies)
                assert max(len(FORM.encode(reply)) for reply in replies) < 160


def test_templates_differ_and_there_are_several_a_kind() -> None:
    assert OTHER_PROGRAMS.keys() == {kind.name for kind in KINDS}
    for kind in KINDS:
        problem = dataclasses.replace(pose(kind, np.random.default_rng(0), kind.levels[-1]), by_heart=False)
        firsts = [
            TemplateAgent(problem, name, np.random.default_rng(0)).act("") for name in ("named", "other", "inline")
        ]
        assert len(set(firsts)) >= 2, kind.name
        assert firsts[0] != firsts[1]


def test_the_answer_is_read_and_not_known() -> None:
    problem = pose(KINDS[0], np.random.default_rng(0), 3)
    agent = TemplateAgent(problem, "named", np.random.default_rng(0))
    agent.act(problem.question)
    assert agent.act("<interpreter>\nfirst\n-7\n</interpreter>") == "<answer>-7</answer>"
    assert TemplateAgent(problem, "text", np.random.default_rng(0)).act("") == f"<answer>{problem.answer}</answer>"
    assert last_line("no output at all") == ""


def test_values_take_the_place_of_names() -> None:
    assert inlined("print(a * b + sum(ab))", {"a": 2, "b": "x"}) == "print(2 * 'x' + sum(ab))"
    assert inlined("while n:\n    n -= k\nprint(n)", {"n": 9, "k": 3}) == "n = 9\nwhile n:\n    n -= 3\nprint(n)"


def test_a_text_is_cut_into_replies_and_claims() -> None:
    text = """I count.
<code>print(1)</code>
<interpreter>
1
</interpreter>
And again. <code>x = 2</code> So <answer>1</answer> as I said."""
    assert split_solution(text) == (
        ["I count.\n<code>print(1)</code>", "And again. <code>x = 2</code>", "So <answer>1</answer>"],
        ["1", ""],
    )
    assert split_solution("no tag") == (["no tag"], [])


def played(*replies: str, statuses: str, success: bool = True, **info: Any) -> Played:
    """A solution whose programs ended so; "-" is a reply without one."""
    names = {"o": "ok", "e": "error", "-": "none"}
    infos = [{"interpreter": {"status": names[each]}, "action_is_valid": True, "success": success} for each in statuses]
    return Played(replies, tuple("1" for each in statuses if each != "-"), tuple({**each, **info} for each in infos))


RUN, FAIL, SAY = "<code>print(1)</code>", "<code>x</code>", "<answer>1</answer>"


@pytest.mark.parametrize(
    ("solution", "claimed", "expected"),
    [
        (played(RUN, SAY, statuses="o-"), None, ""),
        (played(RUN, SAY, statuses="o-"), ["1\n"], ""),
        (played(RUN, SAY, statuses="o-"), ["2"], "claimed output is not the interpreter's"),
        (played(RUN, SAY, statuses="o-"), [], "claimed output is not the interpreter's"),
        (played(SAY, statuses="-"), [], ""),
        (played(SAY, statuses="-", success=False), None, "wrong answer"),
        (played(RUN, statuses="o", success=False), None, "no answer"),
        (played(FAIL, RUN, SAY, statuses="eo-"), None, "failed program"),
        (played("1", SAY, statuses="--", action_is_valid=False), None, "unreadable reply"),
        (played("<interpreter>1</interpreter>" + SAY, statuses="-"), None, "output written by hand"),
        (played(SAY, statuses="-", valid=False), None, "void: the sandbox failed"),
        (Played((), (), ()), None, "no answer"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_faults(solution: Played, claimed: list[str] | None, expected: str) -> None:
    assert fault(solution, claimed) == expected


def test_errors_can_be_kept() -> None:
    assert fault(played(FAIL, RUN, SAY, statuses="eo-"), keep_errors=True) == ""


def test_a_file_is_written_whole_and_an_interrupted_command_goes_on(sandbox, tmp_path, monkeypatch, capsys) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    command = ["--episodes", "12", "--env-args", "difficulty=(1,3)"]
    assert main(["templates", str(whole), *command]) == 0
    assert "12 of 12 solutions" in capsys.readouterr().out
    play, calls = cold_start.play, []

    def interrupted(*arguments: Any) -> Played:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return play(*arguments)

    monkeypatch.setattr(cold_start, "play", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["templates", str(parts), *command])
    progress = tmp_path / "parts.jsonl.progress"
    assert not parts.exists()
    with progress.open("a") as file:
        file.write('{"fault": "", "se')  # a crash in the middle of a line
    assert main(["templates", str(parts), "--episodes", "13"]) == 2
    assert "is of a command with other settings" in capsys.readouterr().err
    assert main(["templates", str(parts), *command]) == 0
    assert len(calls) == 6 + 7  # the five of before were not played again
    assert parts.read_bytes() == whole.read_bytes()
    assert not progress.exists()


def test_a_model_that_knows_nothing_by_heart_calls_always(sandbox, tmp_path) -> None:
    path = tmp_path / "cold.jsonl"
    command = ["templates", str(path), "--episodes", "4", "--env-args", "difficulty=(0,1)", "--templates", "named"]
    for settings, calls in (([], 0), (["--call-always"], 1)):
        assert main([*command, *settings]) == 0
        assert [len(row["outputs"]) for row in rows_of(path)] == [calls] * 4


def test_training_takes_the_file(sandbox, tmp_path) -> None:
    path = tmp_path / "cold.jsonl"
    assert main(["templates", str(path), "--episodes", "6", "--env-args", "difficulty=(3,3)"]) == 0
    rows, env = rows_of(path), gymnasium.make("turngym:CodeInterpreter-v0", difficulty=(3, 3))
    episodes = load_demonstrations(path, env, FORM)
    assert [each.seed for each in episodes] == [row["seed"] for row in rows]
    for row, episode in zip(rows, episodes, strict=True):
        assert row["outputs"]
        given = [token for token, mask in zip(episode.ids, episode.policy_mask, strict=True) if not mask]
        learned = [token for token, mask in zip(episode.ids, episode.policy_mask, strict=True) if mask]
        assert FORM.tokenizer.decode(learned) == "".join(f"{reply}<|end|>" for reply in row["replies"])
        assert all(f"<interpreter>\n{output}\n" in FORM.tokenizer.decode(given) for output in row["outputs"])
    env.close()


def test_what_a_model_wrote_is_checked_and_counted(sandbox, tmp_path, capsys) -> None:
    source, target = tmp_path / "told.jsonl", tmp_path / "kept.jsonl"
    env = gymnasium.make("turngym:CodeInterpreter-v0", difficulty=(3, 3))
    env.reset(seed=5)
    answer = env.get_wrapper_attr("problem").answer
    right = f"<code>print('{answer}')</code>"
    solution = f"{right}\n<interpreter>\n{{}}\n</interpreter>\n<answer>{answer}</answer>"
    told = [
        {"seed": 5, "replies": [right, f"<answer>{answer}</answer> and more"]},
        {"seed": 5, "replies": [right, f"<answer>{answer}</answer>"]},  # the same again
        {"seed": 5, "solution": "I see. " + solution.format(answer)},
        {"seed": 5, "solution": solution.format("something else")},
        {"seed": 5, "replies": ["<code>1 / 0</code>", right, f"<answer>{answer}</answer>"]},
        {"seed": 5, "replies": [right, "<answer>no idea</answer>"]},
        {"seed": 5, "replies": [right]},
    ]
    source.write_text("\n".join(map(json.dumps, told)) + "\n")
    command = [str(source), str(target), "--env-args", "difficulty=(3,3)"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "2 of 7 solutions" in out
    for why in ("said twice", "claimed output is not", "failed program", "wrong answer", "no answer"):
        assert f"1  dropped, {why}" in out
    assert [row["replies"][0] for row in rows_of(target)] == [right, f"I see. {right}"]
    again = tmp_path / "again.jsonl"
    assert main([str(target), str(again), *command[2:]]) == 0  # whose claims are those of the first
    assert rows_of(again) == rows_of(target)
    capsys.readouterr()
    assert main([*command, "--keep-errors"]) == 0
    assert "3 of 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere.jsonl"], "allowed are templates, or an existing file"),
        (
            ["templates", "--templates", "poem"],
            "--templates must be some of named, other, inline, fenced, checked, text, got",
        ),
        (["templates", "--episodes", "0"], "--episodes must be at least 1"),
        (["templates", "--env-args", "difficulty=(9,9)"], "difficulty must be"),
    ],
)
def test_bad_input_gives_one_clear_line(arguments: list[str], expected: str, tmp_path, capsys) -> None:
    assert main([arguments[0], str(tmp_path / "out.jsonl"), *arguments[1:]]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert len(message.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_bad_files_are_named(tmp_path, capsys) -> None:
    path = tmp_path / "told.jsonl"
    path.write_text('{"seed": 1, "replies": []}\n{"seed": 2}\n')
    assert main([str(path), str(tmp_path / "out.jsonl")]) == 2
    assert "line 2: expected seed, and replies or solution" in capsys.readouterr().err
    path.write_text("\n")
    assert main([str(path), str(tmp_path / "out.jsonl")]) == 2
    assert "holds no solution" in capsys.readouterr().err
    path.write_text('{"seed": 1, "replies": []}\n')
    assert main([str(path), str(tmp_path / "out.jsonl")]) == 2
    assert "no solution is good: 1 no answer" in capsys.readouterr().err


def test_a_dataset_has_no_templates(tmp_path, capsys) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(json.dumps({"question": f"{n} + 1?", "answer": n + 1}) for n in range(50)))
    assert main(["templates", str(tmp_path / "out.jsonl"), "--env-args", f"dataset={path}"]) == 2
    assert "templates solve our own questions alone" in capsys.readouterr().err


def test_a_model_reads_a_solution_that_its_reader_does_not() -> None:
    api = pytest.importorskip("turngym.agents.api", exc_type=ImportError)
    name = "turngym.baselines.rewriting:CodeInterpreterRewriting-v0"
    env = api.make_env(api.Args(model="any", env_id=name, split="train", env_args=("difficulty=(3,3)",)))
    shown, info = env.reset(seed=5)
    plain, same = gymnasium.make("turngym:CodeInterpreter-v0", difficulty=(3, 3)).reset(seed=5)
    assert shown.startswith(f"{plain}\n\nFor you alone, a solution:\nThe answer is")
    assert env.get_wrapper_attr("problem").program in shown
    assert info == same
    observation, *_, info = env.step(f"<answer>{env.get_wrapper_attr('problem').answer}</answer>")
    assert (observation, info["success"]) == ("That is right.", True)
