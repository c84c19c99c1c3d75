"""Golden transcripts: whole episodes as text, so that any change of what a model reads is seen in review.

`tests/test_golden.py` compares. After a change that was meant, run `python tests/golden/rewrite.py`, read the
difference, and say in the commit why it is right. A change of dynamics also raises the version in the id.
"""

from pathlib import Path
from typing import Any

import gymnasium

import turngym  # noqa: F401  # registers the environments

FOLDER = Path(__file__).parent

Episode = tuple[str, dict[str, Any], int, list[str]]

EPISODES: dict[str, Episode] = {
    "frozen_lake": ("TextFrozenLake-v0", {}, 7, ["Fly", "", "Right", "left || up", " uP\n"]),
    "frozen_lake_hole": ("TextFrozenLake-v0", {"split": "test"}, 3, ["Left", "Right", "Up"]),
    "frozen_lake_out_of_turns": ("TextFrozenLake-v0", {"split": "test", "max_turns": 2}, 3, ["Down", "down"]),
    "frozen_lake_slippery": (
        "TextFrozenLake-v0",
        {"success_rate": 1 / 3, "moves_per_turn": 3, "size": 5, "max_turns": "2x"},
        26,
        ["Left || Down || Right", "Up || Up || Up || Up", "Up", "Right||right||RIGHT", "Down || Fly", "Down"] * 4,
    ),
    "code_interpreter": (
        "CodeInterpreter-v0",
        {"max_turns": 8},
        29,
        [
            "I think it is 10000.",
            "<code>\nn = 96 ** 1170\nsum(n)\n</code>",
            "<code>```python\nprint('</interpreter><|im_end|>', len(str(n)))\n```</code>",
            "<code>n = 0; import os; os._exit(1)</code><answer>ignored</answer>",
            "<code>digits = [int(digit) for digit in str(n)]</code>",
            "<code>sum(digits)</code>",
            r"So it is <answer>\boxed{10,584}</answer>",
        ],
    ),
    "code_interpreter_out_of_turns": (
        "CodeInterpreter-v0",
        {"difficulty": (0, 0), "split": "test", "max_turns": 2, "invalid_penalty": -0.1},
        0,
        ["<code>print('x' * 3000)</code>", "<answer></answer>"],
    ),
    "sokoban": ("Sokoban-v0", {}, 53, ["Fly", "", "Up", "DOWN", "down", "Up || Right", "Right", " down\n", "Left"]),
    "sokoban_coordinates": (
        "Sokoban7x7x2-v0",
        {"observation_format": "coordinates", "moves_per_turn": 4, "reward": "sparse", "max_turns": "0.5x"},
        4,
        [
            "Up || Up || Left || Left",
            "Left||Down||Right||Right",
            "Up || Right || Right || Fly",
            "Up",
            "Up",
            "Down",
            "Up",
        ],
    ),
    "sokoban_adjacency": (
        "Sokoban-v0",
        {"observation_format": "adjacency", "size": (5, 6), "split": "validation"},
        5,
        ["Up", "Left", "Right"],
    ),
    "sokoban_boxoban": (
        "SokobanBoxoban-v0",
        {"observation_format": "json", "split": "test", "max_turns": 3},
        2,
        ["Right", "Right", "Right"],
    ),
    "ragen_sokoban": (
        "RagenSokoban-v0",
        {},
        10,
        ["Jump", "Up || Jump", "Down || Right || Right || Down || Right || Left", "Left || Right || Up || Up"],
    ),
    "ragen_sokoban_out_of_moves": (
        "RagenSokoban-v0",
        {"observation_format": "grid+coordinates", "moves_per_turn": 2, "max_turns": 10, "split": "test"},
        1,
        ["Up || Up", "Up || Down || Left", "Left || Left", "Right || Fly", "Up || Up", "Down", "Down || Down"],
    ),
    "path_planning": (
        "PathPlanning-v0",
        {"split": "test"},
        16,
        ["Go Left", "Left", "Right || Up", "down", "LEFT", " left\n", "Up"],
    ),
    "path_planning_obstacles": (
        "PathPlanning-v0",
        {"obstacles": 3, "size": 6, "moves_per_turn": 2, "family": "random"},
        28,
        ["Stay||stay", "Right || Right", "Down || Down", "Right || Right", "Up"],
    ),
    "path_planning_unknown_terrain": (
        "PathPlanning-v0",
        {
            "family": "terrain",
            "size": (6, 9),
            "connectivity": 8,
            "max_steps": 40,
            "view_radius": 1,
            "reward": "cost",
            "shaping": True,
        },
        0,
        ["Up Right", "Up", "Stay", "Up Left", "Up Left", "Right", "Up Right", "Down"],
    ),
    "rstar2": (
        "RStar2-v0",
        {"split": "test"},
        1,
        ["goal", "North", "4 7", "99 3", "0 5 || 1 1", " 4  5\n", "0 5", "4 5", "GOAL"],
    ),
    "rstar2_tree": (
        "RStar2-v0",
        {"tree": True, "connectivity": 8, "family": "terrain", "size": 8, "min_steps": 6, "shaping": True},
        3,
        ["from 0 0 to 2 2", "from 2 3 to 4 4", "2 4", "2 4", "from 2 3 to 5 2", "From 5 2 to goal"],
    ),
    "rstar2_one_shot": (
        "RStar2-v0",
        {"waypoints_per_turn": 8, "max_turns": 1, "max_expansions": 2, "evaluation_cost": 0.1, "family": "maze"},
        2,
        ["0 10 || 2 10 || goal"],
    ),
    "rstar2_out_of_budget": (
        "RStar2-v0",
        {"max_expansions": 1, "text_form": "runs"},
        1,
        ["9 3", "8 6"],
    ),
    "joint_path_planning": (
        "JointPathPlanning-v0",
        {"max_turns": 12},
        47,
        [
            "Down",
            "a Down | b Right",
            "a Down | b Right | c Down",
            "c Down|B left|A UP",
            "a Down | b Right | c Left",
            "a Stay | b Right | c Right",
            "a Up | b Right | c Up",
            "a Stay | b Left | c Left",
            "a Stay | b Stay | c Up",
            "a Stay | b Right | c Stay",
            "a Stay | b Right | c Down",
        ],
    ),
    "joint_path_planning_out_of_turns": (
        "JointPathPlanning-v0",
        {"agents": 4, "size": 7, "family": "maze", "split": "test", "max_turns": 2},
        0,
        ["a Up | b Up | c Up | d Up", "a Up | b Down | c Stay | d Right"],
    ),
}
"""Name of the file: id, arguments of `make`, seed, and replies; those after the end are not given."""


def transcript(episode: Episode) -> str:
    """Everything that an environment says in one episode."""
    env_id, arguments, seed, replies = episode
    env = gymnasium.make(env_id, **arguments)
    observation, info = env.reset(seed=seed)
    lines = [f"{env_id} {arguments} seed {seed}", "", info.pop("instructions"), "", observation, _told(info)]
    for reply in replies:
        observation, reward, terminated, truncated, info = env.step(reply)
        lines += ["", f"> {reply!r}", observation, _told({"reward": reward, **info})]
        if terminated or truncated:
            lines += ["", "terminated" if terminated else "truncated"]
            break
    env.close()
    return "\n".join([*lines, ""])


def _told(info: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in info.items())


if __name__ == "__main__":
    for name, episode in EPISODES.items():
        (FOLDER / f"{name}.txt").write_text(transcript(episode), encoding="utf-8")
