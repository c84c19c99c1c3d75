"""What `learning.py` measures: settings and seeds, fixed before any run."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Study:
    """Variants of a recipe on the same levels, each over the same training seeds.

    Attributes:
        question: What the page answers.
        variants: Settings of `baselines/ppo_llm.py` for each variant, or the whole commands of other recipes, one
            after the other with ` && `; `{before}` is the run folder of the one before.
        seeds: Training seeds.
        axis: What the variants' names count, where they are numbers: the page gets a curve over it.
        levels: Levels that are played with sampled replies.
        notes: What a reader of the page should know, as Markdown.
        data: Files that variants learn from, each with the command that makes it.
    """

    question: str
    variants: dict[str, str]
    seeds: tuple[int, ...] = (0, 1, 2)
    axis: str = ""
    levels: int = 1000
    notes: str = ""
    data: dict[str, str] = field(default_factory=dict)

    def commands(self, variant: str) -> list[str]:
        """What is run for a variant, one after the other: each a script and its settings, but for seed and folder."""
        settings = self.variants[variant]
        return (
            settings.split(" && ")
            if settings.startswith("baselines/")
            else [f"baselines/ppo_llm.py {settings}".rstrip()]
        )


# Returns of about 1: those of the default reward are ten times as large, so the critic's loss drowns the policy's.
# Few turns: a transcript longer than any demonstration is one in which `tiny` writes what cannot be read.
_FOUR_MOVES = (
    "--env-id Sokoban-v0 --env-args observation_format=grid moves_per_turn=4 max_turns=4 reward=sparse "
    "--demonstration-episodes 10000 --sft-batch 16 --validation-episodes 128 --minibatches 4 --validate-every 10"
)

# A small map and the whole way in one reply: what a core learns in minutes. Random replies reach the goal in 7%. With
# few iterations the critic must neither pull the policy away nor be believed at once (seen on validation levels).
_CAREFUL = "--iterations 12 --validate-every 4 --retry-share 0 --value-coefficient 0.5"
_ONE_REPLY = (
    "--env-id PathPlanning-v0 --sft-epochs 4 --sft-batch 16 --evaluation-episodes 500 "
    "--env-args size=5 moves_per_turn=16 max_turns=1"
)

_FOUR_MOVES_NOTES = """\
A reply may hold up to four moves, and an episode has four turns: 16 moves at most, whatever the level. The id's own
rule is one move a turn and three times as many turns as the shortest solution has moves, 12 to 36. With that rule
an episode that goes astray is three to five times as long as any demonstration, and there a model that learned from
demonstrations alone writes replies that cannot be read. The levels are those of the id; random and oracle play
under the same rule. Training is paid 1 for a solution and nothing for moves (`reward=sparse`): success, which the
table shows, does not depend on it, but the critic learns returns of about 1 far sooner than returns of about 10."""

_RAGEN_NOTES = """\
RAGEN (arXiv:2504.20073) reports of its SimpleSokoban, with Qwen2.5-0.5B-Instruct: reinforcement learning alone
(StarPO-S) 0.215 in its table and 0.203 in appendix G, and 0.746 after supervised fine-tuning (LoRA) on 1,000
shortest paths found by breadth-first search. These are the same rules, symbols, turns and moves, but not the same
experiment:

- *demonstrations*: as many, of shortest paths as well, on 1,000 other levels; the levels of training and test are
  kept apart by their canonical form, RAGEN's by their seed.
- *model*: from scratch with 0.4M parameters, not pretrained with 500M; it knows nothing but this task.
- *vocabulary*: a cell of the board and a move are one token each, and cells are separated by spaces.
- *thoughts*: none here; RAGEN's replies reason first.
- *training*: all weights, and as many passes as validation levels allow, where RAGEN trains low-rank adapters.
- *reinforcement learning*: PPO begins at the imitating policy, RAGEN's begins at the pretrained model. Ours is paid
  1 for the solution and -0.1 for a reply without a move, RAGEN's also by moves and pushes, with 10 for the solution.

A third of the levels need one move or two: replies at random solve a fifth, which is what 0.203 should be read
against."""

# Cut to what a busy core does in half an hour: SFT stops while it still improves, and RL is short.
_TOOL = (
    "--env-id CodeInterpreter-v0 --sft-batch 8 --sft-epochs 4 --iterations 8 --episodes 64 --minibatches 2 "
    "--learning-rate 2e-4 --entropy-coefficient 0 --retry-share 0.25 --validate-every 4 --validation-episodes 64 "
    "--evaluation-episodes 300"
)
_LONG = (
    "baselines/starpo_s.py --demonstration-episodes 300 --reply-format think --iterations 100 --episodes 128 "
    "--learning-rate 1.2e-3 --validate-every 10"
)
_KNOBS = "baselines/grpo.py --demonstration-episodes 300"

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
        notes=_FOUR_MOVES_NOTES,
    ),
    "ragen_sokoban": Study(
        "RAGEN's Sokoban with exactly 1,000 demonstrations, beside RAGEN's published rows",
        {
            "sft, then ppo": "--env-id RagenSokoban-v0 --env-args reward=sparse --demonstration-episodes 1000 "
            "--sft-batch 16 --sft-epochs 30 --validation-episodes 128 "
            "--iterations 40 --minibatches 4 --validate-every 10",
        },
        levels=250,
        notes=_RAGEN_NOTES,
    ),
    "path_planning": Study(
        "Paths on 5x5 maps, the whole way in one reply: what does PPO add to imitation?",
        {"sft, then ppo": f"{_ONE_REPLY} --demonstration-episodes 4000 {_CAREFUL} --critic-warmup 4"},
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
    "code_interpreter": Study(
        "ReTool's recipe: what is an interpreter worth, from what is known by heart to what no head can compute?",
        {
            "tool": f"{_TOOL} --demonstrations runs/data/with_tool.jsonl",
            "text-only": f"{_TOOL} --demonstrations runs/data/text_only.jsonl",
        },
        levels=24,
        data={
            f"runs/data/{name}.jsonl": (
                f"baselines/cold_start.py templates runs/data/{name}.jsonl --episodes 3000 --templates {template} "
                "--call-always"
            )
            for name, template in (("with_tool", "named"), ("text_only", "text"))
        },
    ),
    "thoughts_slippery": Study(
        "Does it help to write a plan before each action where moves slip?",
        {
            form: (
                "--env-id TextFrozenLakeSlippery-v0 --demonstration-episodes 500 --sft-epochs 15 --iterations 40 "
                f"--reply-format {form}"
            )
            for form in ("action", "think")
        },
    ),
    "starpo": Study(
        "Does StarPO collapse in a long run, and does StarPO-S put that off?",
        {
            "starpo": f"{_LONG} --filter-share 1 --clip-high 0.2 --kl-coefficient 0.001",
            "starpo-s": _LONG,
        },
    ),
    "knobs": Study(
        "What do several moves a turn, many levels and fresh rollouts bring?",
        {
            "base": f"{_KNOBS} --iterations 60 --env-args moves_per_turn=3",
            "one move a turn": f"{_KNOBS} --iterations 60",
            "few levels": f"{_KNOBS} --iterations 60 --env-args moves_per_turn=3 --group-size 64",
            "stale rollouts": f"{_KNOBS} --iterations 12 --env-args moves_per_turn=3 --epochs 5",
        },
    ),
    "early_experience": Study(
        "What do trials add to a hundred demonstrations, and does RL end higher after them?",
        {
            name: (
                f"baselines/early_experience.py --method {method} && "
                "baselines/ppo_llm.py --model {before}/model --demonstrations none --iterations 60"
            )
            for name, method in (("imitation", "imitation"), ("world model", "world_model"))
        },
        seeds=(0, 1, 2, 3, 4),
    ),
    "reflection": Study(
        "Do thoughts on what came of other actions teach more than an oracle's?",
        {
            name: f"baselines/early_experience.py --method {name} --reply-format think"
            for name in ("imitation", "reflection")
        },
    ),
    "step_groups": Study(
        "Is it worth comparing turns rather than episodes?",
        {
            name: f"baselines/grpo.py --env-id TextFrozenLake8x8-v0 --sft-epochs 15 --iterations 60 --estimator {name}"
            for name in ("grpo", "gigpo", "hgpo", "graft")
        },
    ),
    "rstar2": Study(
        "Waypoints in RStar2's place, on 8x8 maps of rooms: who teaches better, and what does PPO add?",
        {
            teacher: f"--env-id RStar2-v0 --env-args size=8 --demonstrations {teacher} --demonstration-episodes 1500 "
            "--sft-epochs 4 --sft-batch 16 --episodes 128 --critic-warmup 2 --evaluation-episodes 500 " + _CAREFUL
            for teacher in ("oracle", "rstar2")
        },
        levels=100,
    ),
}
