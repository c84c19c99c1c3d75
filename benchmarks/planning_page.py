"""The page of `planning.py`: tables in Markdown and a figure from its records, one for each query and planner."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]


def row(cells: Iterable[object]) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table, with empty lines around it."""
    return ["", row(header), f"|{'---|' * len(header)}", *map(row, rows), ""]


def families(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each family of maps, in the order of their first appearance."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["family"], []).append(record)
    return found


def of(planner: str, records: Sequence[Record], key: str = "expansions") -> np.ndarray:
    """What was measured of a planner, for each query."""
    return np.array([record[key] for record in records if record["planner"] == planner], float)


def quantile(values: np.ndarray, share: float) -> float:
    """A quantile that is one of the values, so that infinite ones are no trouble."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else np.inf


def tables(records: Sequence[Record], planners: Sequence[str], budget: int) -> list[str]:
    """Expansions, cost and time by family, and who is ahead of whom; the first planner is the measure of the others."""
    lines = []
    for title, key in (
        (
            f"Expansions in those of A*: median / p90; share solved within {budget} times A*'s, where not all",
            "expansions",
        ),
        ("Cost in that of a cheapest path, of what was solved: median / p90", "suboptimality"),
        ("CPU time in that of A*: median / p90", "time"),
    ):
        rows = [family_row(name, own, key, planners) for name, own in families(records).items()]
        lines += [title, *table(["maps", "queries", *planners], rows)]
    return lines + ahead(records, planners)


def family_row(family: str, records: Sequence[Record], key: str, planners: Sequence[str]) -> list[object]:
    """A family's row of the table of one measure."""
    first, *others = planners
    scale = {"expansions": f"{np.median(of(first, records, 'absolute')):,.0f}", "suboptimality": "1"}
    cells: list[object] = [
        family,
        len(of(first, records)),
        scale.get(key, f"{np.median(of(first, records, 'ms')):.1f} ms"),
    ]
    for name in others:
        solved = np.isfinite(of(name, records))
        values = of(name, records, "ms") / of(first, records, "ms") if key == "time" else of(name, records, key)
        values = values[solved] if key == "suboptimality" else values
        form = "{:.3f}" if key == "expansions" else "{:.2f}"
        shares = [quantile(values, share) for share in (0.5, 0.9)]
        text = " / ".join([form.format(each) if np.isfinite(each) else "–" for each in shares])
        cells.append(text + (f"; {solved.mean():.0%}" if key == "expansions" and not solved.all() else ""))
    return cells


def ahead(records: Sequence[Record], planners: Sequence[str]) -> list[str]:
    """How often each planner needs fewer expansions than R* and than weighted A*, and by which median it does not."""

    def expansions(name: str, own: Sequence[Record]) -> np.ndarray:
        return np.where(np.isfinite(of(name, own)), of(name, own, "absolute"), np.inf)

    rivals, rows, behind = ("R*", "wA*(2)"), [], []
    for name in planners[2:]:
        cells = [name]
        for rival in rivals:
            mine, theirs = expansions(name, records), expansions(rival, records)
            cells.append(f"{np.mean(mine < theirs):.0%} ({np.mean(mine == theirs):.0%})" if name != rival else "")
            lost = [
                family
                for family, own in families(records).items()
                if quantile(of(name, own), 0.5) > quantile(of(rival, own), 0.5)
            ]
            if name != rival and name != "R*":
                behind.append(f"- {name}, against {rival}: {', '.join(lost) or 'nowhere'}.")
        rows.append(cells)
    return [
        "Share of all queries with fewer expansions than (in brackets: as many as)",
        *table(["planner", *rivals], rows),
        "Where RStar2 is behind, by the family's median of expansions:",
        "",
        *behind,
        "",
    ]


def draw(path: Path, records: Sequence[Record], planners: Sequence[str]) -> None:
    """Median and p90 of expansions in those of A*, family by family."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    own = families(records)
    figure, axes = plt.subplots(figsize=(9, 0.5 * len(own) + 1.5), layout="constrained")
    places = np.arange(len(own))
    for number, name in enumerate(planners[1:]):
        medians, tails = ([quantile(of(name, each), share) for each in own.values()] for share in (0.5, 0.9))
        offset = places + 0.11 * (number - (len(planners) - 2) / 2)
        (line,) = axes.plot(medians, offset, "o", markersize=4, label=name)
        axes.hlines(offset, medians, tails, color=line.get_color(), linewidth=1)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="expansions in those of A*: median (dot) to 90th percentile (line)")
    axes.set_yticks(places, list(own))
    axes.invert_yaxis()
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=120)
    plt.close(figure)
