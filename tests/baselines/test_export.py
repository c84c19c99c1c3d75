"""What other trainers are given: the same conversation as text and as tokens, and what is to be learned of it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, tiny
from turngym.agents.models import PolicyModel
from turngym.baselines import export
from turngym.baselines.demonstrations import oracle_demonstrations
from turngym.baselines.export import load_format, main, messages, record, write_jsonl
from turngym.baselines.run_folder import RunFolder
from turngym.wrappers import ReasoningWrapper

ROOT = Path(__file__).parents[2]
FORM = load_format("tiny")


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


@pytest.fixture(scope="module")
def rollouts(model) -> list[Trajectory]:
    """Replies of a model that has learned nothing: cut off by their length, and not as a tokenizer would write them."""
    envs = [gymnasium.make("turngym:TextFrozenLake-v0", max_turns=3) for _ in range(4)]
    return collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(4))


def test_a_demonstration_comes_back_as_it_was() -> None:
    """The chat template over the messages gives the ids; the mask covers the replies and their ends."""
    env = ReasoningWrapper(gymnasium.make("turngym:TextFrozenLake-v0"))
    (episode,) = oracle_demonstrations(env, FORM, [4])
    row = record(episode, FORM)
    tokenizer = FORM.tokenizer
    assert tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"] == row["input_ids"]
    assert row["input_ids"] == episode.ids
    learned = [token for token, mask in zip(row["input_ids"], row["assistant_masks"], strict=True) if mask]
    replies = [each["content"] for each in row["messages"] if each["loss"]]
    assert tokenizer.decode(learned) == "".join(f"{reply}<|end|>" for reply in replies)
    assert len(replies) == episode.turns
    assert replies[0].startswith("<think>I am at")


def test_messages_are_what_was_said() -> None:
    env = gymnasium.make("turngym:TextFrozenLake-v0")
    (episode,) = oracle_demonstrations(env, FORM, [4])
    observation, info = env.reset(seed=4)
    said = [{"role": "user", "content": f"{info['instructions']}\n\n{observation}", "loss": False}]
    over = False
    while not over:
        action = env.get_wrapper_attr("oracle_action")()
        said.append({"role": "assistant", "content": action, "loss": True})
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        said.append({"role": "user", "content": observation, "loss": False})
    assert messages(episode, FORM) == said[:-1]


def test_sampled_tokens_are_kept_as_they_are(model, rollouts) -> None:
    for each in rollouts:
        row = record(each, FORM)
        assert row["input_ids"] == each.ids[: len(row["input_ids"])]
        assert row["input_ids"][-1] == FORM.end
        assert sum(row["assistant_masks"]) == sum(each.policy_mask)
        contents = [said["content"] for said in row["messages"]]
        assert contents[1::2] == [model.decode(reply) for reply in each.replies()]
        assert all("<|" not in content for content in contents[::2])


@pytest.mark.parametrize("piece", ["opening", "turn_change", "reply_opening"])
def test_another_template_is_noticed(rollouts, piece) -> None:
    with pytest.raises(ValueError, match="another chat template has written this transcript"):
        record(rollouts[0], dataclasses.replace(FORM, **{piece: [5]}))


def test_a_run_is_exported_without_its_environment(tmp_path, model, rollouts) -> None:
    folder = RunFolder.create(tmp_path / "run", {"model": "tiny"})
    rollouts[1].success = True
    folder.save_trajectories("ppo", 1, rollouts, model)
    source, output = str(tmp_path / "run/trajectories.jsonl"), tmp_path / "episodes.jsonl"
    assert main([source, str(output), "--failures"]) == 0
    assert rows_of(output) == [record(each, FORM) for each in rollouts]
    assert main([source, str(output)]) == 0
    assert rows_of(output) == [record(rollouts[1], FORM)]


def test_the_oracle_and_recorded_replies_give_the_same(tmp_path) -> None:
    """What the oracle shows, and its replies played again."""
    first, again, replies = (tmp_path / name for name in ("first.jsonl", "again.jsonl", "replies.jsonl"))
    assert main(["oracle", str(first), "--episodes", "3", "--seed", "1"]) == 0
    said = [
        {"seed": row["seed"], "replies": [each["content"] for each in row["messages"] if each["loss"]]}
        for row in rows_of(first)
    ]
    replies.write_text("".join(json.dumps(each) + "\n" for each in said))
    assert main([str(replies), str(again)]) == 0
    assert rows_of(again) == rows_of(first)
    assert len(said) == 3


def test_a_dataset_holds_the_same_rows(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    output, folder = tmp_path / "rows.jsonl", tmp_path / "data" / "set"
    (tmp_path / "data" / "set.part").mkdir(parents=True)  # what a crash left
    assert main(["oracle", str(output), "--episodes", "2", "--dataset", str(folder)]) == 0
    assert datasets.load_from_disk(str(folder)).to_list() == rows_of(output)
    assert [each.name for each in folder.parent.iterdir()] == ["set"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")  # TRL's own default
def test_trl_learns_what_is_marked(tmp_path) -> None:
    """Its trainer takes the folder as it is, and its labels are the tokens of the mask."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    assert main(["oracle", str(tmp_path / "rows.jsonl"), "--episodes", "4", "--dataset", str(tmp_path / "set")]) == 0
    rows = datasets.load_from_disk(str(tmp_path / "set"))
    config = trl.SFTConfig(output_dir=str(tmp_path / "run"), report_to=[], use_cpu=True, bf16=False, max_length=None)
    trainer = trl.SFTTrainer(tiny.build_model(0), config, train_dataset=rows, processing_class=tiny.build_tokenizer())
    for row, prepared in zip(rows, trainer.train_dataset, strict=True):
        marked = zip(row["input_ids"], row["assistant_masks"], strict=True)
        assert prepared["labels"] == [token if mask else -100 for token, mask in marked]


def test_a_file_is_written_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl([{"seed": 1}], path)

    def rows():
        yield {"seed": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_jsonl(rows(), path)
    assert rows_of(path) == [{"seed": 1}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl", "out.jsonl"], "allowed are oracle, or an existing file"),
        (["oracle", "out.jsonl", "--episodes", "0"], "--episodes must be at least 1"),
        (["oracle", "out.jsonl", "--model", "no/such/model"], "--model no/such/model: its tokenizer cannot be used"),
        (["oracle", "out.jsonl", "--env-id", "Nothing-v0"], "--env-id Nothing-v0"),
        (["oracle", "out.jsonl", "--dataset", "."], "this is in use"),
    ],
)
def test_wrong_settings_are_named(tmp_path, monkeypatch, capsys, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_broken_line_is_named(tmp_path) -> None:
    path = tmp_path / "trajectories.jsonl"
    path.write_text('{"ids": [1]}\n')
    with pytest.raises(ValueError, match="line 1: expected an episode with its tokens"):
        export.recorded(path)


def test_it_runs_as_a_script(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "baselines/export.py", "oracle", "rows.jsonl", "--episodes", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 episodes, ")
    assert len(rows_of(tmp_path / "rows.jsonl")) == 1
