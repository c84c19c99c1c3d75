"""What `learning.py` measures: settings and seeds, fixed before any run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Study:
    """Variants of one recipe on the same levels, each over the same training seeds.

    Attributes:
        question: What the page answers.
        variants: Settings of `baselines/ppo_llm.py` for each variant.
        seeds: Training seeds.
        axis: What the variants' names count, where they are numbers: the page gets a curve over it.
        levels: Levels that are played with sampled replies.
    """

    question: str
    variants: dict[str, str]
    seeds: tuple[int, ...] = (0, 1, 2)
    axis: str = ""
    levels: int = 1000


# Few turns: a transcript longer than any demonstration is one in which `tiny` writes what cannot be read.
_FOUR_MOVES = (
    "--env-id Sokoban-v0 --env-args observation_format=grid moves_per_turn=4 max_turns=4 "
    "--demonstration-episodes 10000 --sft-batch 16 --validation-episodes 128 --validate-every 10"
)

# A small map and the whole way in one reply: what a core learns in minutes. Random replies reach the goal in 7%.
_ONE_REPLY = (
    "--env-id PathPlanning-v0 --sft-epochs 4 --sft-batch 16 --evaluation-episodes 500 "
    "--env-args size=5 moves_per_turn=16 max_turns=1"
)

STUDIES = {
    "text_frozen_lake": Study(
        "What does PPO add to imitation, and would imitation have got there with as much time?",
        {"sft, then ppo": "", "sft, whole time": "--iterations 0 --sft-epochs 150 --sft-patience 150"},
        seeds=(0, 1, 2, 3, 4),
    ),
    "slippery": Study(
        "Shortest paths are the wrong thing to imitate where moves slip: does RL learn caution?",
        {"sft, then ppo": "--env-id TextFrozenLakeSlippery-v0 --sft-epochs 15 --iterations 150"},
    ),
    "text_frozen_lake_8x8": Study(
        "How far does the same recipe get on larger lakes?",
        {"sft, then ppo": "--env-id TextFrozenLake8x8-v0 --sft-epochs 15 --iterations 60"},
    ),
    "ragen_frozen_lake": Study(
        "How far does it get under RAGEN's rules, in both versions?",
        {
            "v1": "--env-id RagenFrozenLake-v0 --env-args version=v1 --iterations 100",
            "v2": "--env-id RagenFrozenLake-v0 --env-args version=v2 --iterations 100",
        },
    ),
    "demonstrations": Study(
        "Where does imitation stop, and where does RL go on?",
        {
            str(count): f"--demonstration-episodes {count} --sft-epochs {epochs} --iterations 60"
            for count, epochs in {100: 100, 300: 60, 1000: 30, 3000: 12, 10000: 6}.items()
        },
        axis="demonstrations",
    ),
    "thoughts": Study(
        "Does it help to write a plan before each action?",
        {
            "action": "--demonstration-episodes 500 --iterations 40",
            "think": "--demonstration-episodes 500 --iterations 40 --reply-format think",
        },
    ),
    "sokoban": Study(
        "Sokoban with one box: what does PPO add to imitation, and would imitation have got there with as much time?",
        {
            "sft, then ppo": f"{_FOUR_MOVES} --sft-epochs 5 --iterations 40",
            "sft, whole time": f"{_FOUR_MOVES} --sft-epochs 11 --sft-patience 11 --iterations 0",
        },
        levels=250,
    ),
    "ragen_sokoban": Study(
        "RAGEN's Sokoban with exactly 1,000 demonstrations, beside RAGEN's published rows",
        {
            "sft, then ppo": "--env-id RagenSokoban-v0 --demonstration-episodes 1000 --sft-batch 16 --sft-epochs 30 "
            "--validation-episodes 128 --iterations 40 --validate-every 10",
        },
        levels=250,
    ),
    "path_planning": Study(
        "Paths on 5x5 maps, the whole way in one reply: what does PPO add to imitation?",
        {"sft, then ppo": f"{_ONE_REPLY} --demonstration-episodes 4000 --iterations 40"},
        levels=250,
    ),
    "path_planning_text_forms": Study(
        "In which text form does imitation learn to plan paths?",
        {
            form: f"{_ONE_REPLY} text_form={form} --demonstration-episodes 2000 --iterations 0"
            for form in ("grid", "coordinates", "runs", "overview", "roads")
        },
        seeds=(0,),
        levels=250,
    ),
}
