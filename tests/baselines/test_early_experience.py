"""Early Experience as a recipe: its budget, what each method learns from, whole runs, and RL from where it ends."""

import json
from pathlib import Path

import pytest
import torch

from turngym.agents import tiny
from turngym.agents.models import PolicyModel, load_policy_model
from turngym.baselines import early_experience, ppo_llm
from turngym.baselines.early_experience import Args, budget
from turngym.baselines.parallel import Workers
from turngym.baselines.run import Run, demonstrated, make_replied, sft_settings
from turngym.baselines.run_folder import RunFolder
from turngym.baselines.sft import pretrain, updates_a_pass

SHORT = """--env-id TextFrozenLake-v0 --env-args size=3 --demonstration-episodes 8 --sft-epochs 4 --sft-batch 4
    --world-model-batch 16 --world-model-share 0.5 --validation-episodes 8 --evaluation-episodes 8
    --workers 1""".split()  # noqa: SIM905

_THINK = ["--reply-format", "think", "--max-new-tokens", "8"]


def small_model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


def run_with(**settings) -> Run:
    args = Args(env_id="TextFrozenLake-v0", demonstration_episodes=8, workers=1, **settings)
    args.check()
    return Run(args, small_model(), {"train": make_replied(args, "train", 1)}, Workers(1), folder=None)


@pytest.mark.parametrize(
    ("share", "epochs", "examples", "expected"),
    [
        (0.3, 30, 10_000, (27, 21)),  # 3 updates a pass, 90 in all: 30% of them are 9 passes
        (0.3, 30, 1000, (8, 27)),  # one pass over 1000 examples, 128 at a time
        (0.3, 30, 0, (0, 30)),
        (0.0, 30, 1000, (0, 30)),
        (1.0, 30, 100_000, (87, 1)),  # a pass is left for the demonstrations
        (0.3, 1, 1000, (0, 1)),
    ],
)
def test_no_method_has_more_updates_than_imitation(share, epochs, examples, expected) -> None:
    args = Args(world_model_share=share, sft_epochs=epochs)
    updates, passes = budget(args, 100, examples)
    assert (updates, passes) == expected
    assert updates + passes * updates_a_pass(100, 32) <= epochs * updates_a_pass(100, 32)


def test_what_a_world_model_learns_from() -> None:
    """Every executed action of every state, under the bare rules even where replies have thoughts."""
    run = run_with(reply_format="think", alternatives=2)
    demonstrations = demonstrated(run)
    explored = early_experience.explore(run, demonstrations)
    lessons = early_experience.world_model(run, demonstrations, explored)
    assert lessons.imitated is demonstrations
    assert len(lessons.predicted) == 3 * sum(each.turns for each in demonstrations)
    text = run.model.decode(lessons.predicted[0].ids)
    assert "Think first" not in text
    assert "You walk on a frozen lake" in text


def test_what_reflections_add() -> None:
    """The demonstrated actions stay what they were; a thought names nothing but what was executed in its state."""
    run = run_with(method="reflection", reply_format="think")
    demonstrations = demonstrated(run)
    explored = early_experience.explore(run, demonstrations)
    lessons = early_experience.reflection(run, demonstrations, explored)
    assert 0 < lessons.thoughts < sum(each.turns for each in demonstrations)
    kept = 0
    for before, after, branches in zip(demonstrations, lessons.imitated, explored, strict=True):
        assert after.success
        assert after.state_keys == before.state_keys
        for reply, own in zip(after.replies(), branches, strict=True):
            text = run.model.decode(reply)
            assert early_experience.action_of(text) == own.chosen.action
            if not text.startswith("<think></think>"):
                kept += 1
                assert all(f"{each.action}: " in text for each in own.outcomes)
            assert len(reply) <= 64  # what a reply with a thought may have by default
    assert kept == lessons.thoughts


def test_pretraining_learns_what_follows(tmp_path) -> None:
    run = run_with()
    run.folder = RunFolder.create(tmp_path / "run", {})
    demonstrations = demonstrated(run)
    lessons = early_experience.world_model(run, demonstrations, early_experience.explore(run, demonstrations))
    settings = sft_settings(Args(sft_batch=16, sft_learning_rate=1e-2, optimizer="adamw"))
    pretrain(run.model, lessons.predicted, settings, 60, run.workers, run.folder, lambda e: run.rng(9, e))
    losses = [line["loss"] for line in run.folder.read_metrics()]
    assert len(losses) == 3  # 25, 25 and 10 updates
    assert losses[-1] < losses[0] / 2


def traces(folder: Path) -> tuple[object, ...]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timeless = [{name: line[name] for name in line if name != "wall_s"} for line in lines]
    weights = (folder / "model/model.safetensors").read_bytes()
    return weights, timeless, (folder / "experience.jsonl").read_text()


@pytest.mark.parametrize(("method", "more"), [("world_model", []), ("reflection", _THINK)])
def test_a_whole_run_is_resumed_to_the_same_weights_and_rl_goes_on_from_it(method, more, tmp_path) -> None:
    arguments = [*SHORT, "--method", method, *more]
    assert early_experience.main([*arguments, "--output-dir", str(tmp_path / "alone")]) == 0
    alone = traces(tmp_path / "alone")
    for stop in [("pretraining", 0), ("sft", 1)] if method == "world_model" else [("sft", 1)]:
        folder = tmp_path / f"stopped-in-{stop[0]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "save_state", interrupted_after(RunFolder.save_state, *stop))
            with pytest.raises(KeyboardInterrupt):
                early_experience.main([*arguments, "--output-dir", str(folder)])
        assert early_experience.main(["--resume", str(folder)]) == 0
        assert traces(folder) == alone
    stages = [line["stage"] for line in alone[1]]
    assert stages[:2] == ["experience", "pretraining" if method == "world_model" else "sft"]
    assert ("pretraining" in stages) == (method == "world_model")
    rl = """--demonstrations none --iterations 0 --validation-episodes 8 --evaluation-episodes 8 --workers 1
        --env-id TextFrozenLake-v0 --env-args size=3""".split()  # noqa: SIM905
    arguments = ["--model", str(tmp_path / "alone/model"), "--output-dir", str(tmp_path / "rl"), *rl, *more]
    assert ppo_llm.main(arguments) == 0
    before, after = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("alone", "rl"))
    assert list(before)[-3:] == ["random", "sft", "oracle"]
    assert after["ppo"] == before["sft"]


def interrupted_after(save_state, stage: str, step: int):
    def save_and_stop(self: RunFolder, at: str, done: int, **state) -> None:
        save_state(self, at, done, **state)
        if (at, done) == (stage, step + 1):
            raise KeyboardInterrupt

    return save_and_stop


def test_the_saved_model_is_the_model(tmp_path) -> None:
    model = small_model()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/old.txt").write_text("left by a run that was interrupted here")
    early_experience.save_transformers_model(model, tmp_path / "model")
    again = load_policy_model(str(tmp_path / "model"))
    for name, weight in model.lm.state_dict().items():
        assert torch.equal(weight, again.lm.state_dict()[name])
    text = "_ O P G Down || Up <think>Nothing happened</think> Ünïcode"
    assert again.format.reply(text) == model.format.reply(text)
    assert again.format.prompt("rules") == model.format.prompt("rules")
    assert not (tmp_path / "model/old.txt").exists()
    assert not (tmp_path / "model.part").exists()


BAD_INPUT = {
    "no demonstrations": (["--demonstrations", "none"], "--demonstrations none: there is nothing to branch from"),
    "no thoughts": (["--method", "reflection"], "--method reflection: thoughts need --reply-format think"),
    "no alternatives": (["--alternatives", "0"], "--alternatives must be at least 1, got 0"),
    "a share of more than all": (["--world-model-share", "2"], "--world-model-share must lie in 0 .. 1, got 2.0"),
    "an unknown id": (["--env-id", "TextFrozenPond-v0"], "TextFrozenLake-v0"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gives_one_clear_line_and_code_2(case, tmp_path, capsys) -> None:
    arguments, expected = BAD_INPUT[case]
    assert early_experience.main([*arguments, "--output-dir", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("early_experience: ")
    assert expected in message
    assert len(message.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_help_teaches_every_setting(capsys) -> None:
    with pytest.raises(SystemExit):
        early_experience.main(["--help"])
    text = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')}" in text for name in Args.__dataclass_fields__)


def test_the_same_alternatives_in_every_run() -> None:
    first, second = (early_experience.explore(run, demonstrated(run)) for run in (run_with(), run_with()))
    assert first == second
    assert {len(each.tried) for branches in first for each in branches} == {3}
    other = run_with(seed=1)
    assert early_experience.explore(other, demonstrated(other)) != first
