"""Train on several seeds and tabulate success on held-out levels; finished seeds are kept, so a run can be repeated.

    python benchmarks/learning.py --name text_frozen_lake --seeds 0 1 2 [--jobs 2] [-- settings of ppo_llm.py]

Each seed is one run of `baselines/ppo_llm.py` in `runs/results/`, gone on with where it was interrupted. Its summary is
added to `docs/results/<name>.json` when it is done, and `docs/results/<name>.md` is written anew: every seed, and the
mean over seeds with a 95% interval (Student's t). Nothing is chosen on the levels of the table.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROWS = ("random", "sft", "ppo", "oracle")
_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def run_seed(name: str, seed: int, settings: Sequence[str]) -> dict[str, Any]:
    """One training run, or what is left of it; returns its summary."""
    folder = ROOT / "runs/results" / f"{name}-{seed}"
    if not (folder / "summary.json").exists():
        begun = (folder / "config.json").exists()
        arguments = ["--resume", folder] if begun else ["--seed", seed, "--output-dir", folder, *settings]
        command = [sys.executable, ROOT / "baselines/ppo_llm.py", *arguments]
        subprocess.run([str(part) for part in command], check=True)
    return dict(json.loads((folder / "summary.json").read_text()))


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over seeds, and half the width of its 95% interval (NaN for a single seed)."""
    if len(values) < 2:
        return values[0], float("nan")
    return statistics.mean(values), _T_95[len(values)] * statistics.stdev(values) / len(values) ** 0.5


def page(name: str, settings: Sequence[str], summaries: dict[str, dict[str, Any]]) -> str:
    """The results as Markdown."""
    seeds = sorted(summaries, key=int)
    first = summaries[seeds[0]]
    command = f"python benchmarks/learning.py --name {name} --seeds {' '.join(seeds)}"
    lines = [
        f"# {first['env_id']}: {name}",
        "",
        f"`{command}{' -- ' + ' '.join(settings) if settings else ''}`",
        "",
        f"Success on {first[ROWS[0]]['episodes']} {first['split']} levels, greedy replies. The policy is the `tiny` "
        "model: trained from nothing on an oracle's demonstrations and then on its own episodes; not a language model.",
        "",
        "| seed | " + " | ".join(f"{row} (normalised)" for row in ROWS) + " | minutes |",
        "|---|" + "---|" * (len(ROWS) + 1),
    ]
    for seed in seeds:
        cells = [f"{summaries[seed][row]['success']:.3f} ({summaries[seed][row]['normalized']:.3f})" for row in ROWS]
        lines.append(f"| {seed} | {' | '.join(cells)} | {summaries[seed]['wall_s'] / 60:.1f} |")
    cells = []
    for row in ROWS:
        both = [mean_and_interval([summaries[seed][row][key] for seed in seeds]) for key in ("success", "normalized")]
        cells.append(f"{both[0][0]:.3f} ± {both[0][1]:.3f} ({both[1][0]:.3f} ± {both[1][1]:.3f})")
    lines += [f"| mean | {' | '.join(cells)} | |", "", f"Machine: {machine()}. ± is a 95% interval over seeds.", ""]
    return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "CPU")
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, no GPU"


def main() -> None:
    """Run what is missing, and write the page after each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="of the result, for example text_frozen_lake")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; give each --workers 1 then")
    parser.add_argument("--note", default="", help="a line under the table: what a reader must know of these runs")
    parser.add_argument("settings", nargs="*", help="settings of ppo_llm.py, after --")
    arguments = parser.parse_args()
    path = ROOT / "docs/results" / f"{arguments.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    summaries = json.loads(path.read_text())["runs"] if path.exists() else {}
    with ThreadPoolExecutor(arguments.jobs) as jobs:
        missing = [seed for seed in arguments.seeds if str(seed) not in summaries]
        for summary in jobs.map(lambda seed: run_seed(arguments.name, seed, arguments.settings), missing):
            summaries[str(summary["seed"])] = summary
            write(path, arguments, summaries)
    write(path, arguments, summaries)


def write(path: Path, arguments: argparse.Namespace, summaries: dict[str, dict[str, Any]]) -> None:
    """The record and the page."""
    record = {"settings": arguments.settings, "note": arguments.note, "machine": machine(), "runs": summaries}
    path.write_text(json.dumps(record, indent=2) + "\n")
    text = page(arguments.name, arguments.settings, summaries) + (f"\n{arguments.note}\n" if arguments.note else "")
    path.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
