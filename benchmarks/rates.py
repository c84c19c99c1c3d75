"""Rates of two sides, measured in turn, as rows of a table."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np


def random_directions(steps: int) -> Iterator[int]:
    return iter(np.random.default_rng(0).integers(4, size=steps).tolist())


def rate(play: Callable[[int], None], steps: int) -> float:
    """Steps per second of CPU time."""
    begin = time.process_time()
    play(steps)
    return steps / (time.process_time() - begin)


def print_header(peers: str) -> None:
    print(f"{'turngym':<26}{'a second':>9}  {peers:<22}{'a second':>9}   ratio (smallest to largest)")


def print_row(name: str, peer_name: str, rates: Sequence[tuple[float, float]]) -> None:
    """Medians of our rates and of the peer's, measured in pairs, and of the pairs' ratios."""
    ratios = [mine / theirs for mine, theirs in rates]
    mine, theirs = (statistics.median(side) for side in zip(*rates, strict=True))
    print(
        f"{name:<26}{mine:>9,.0f}  {peer_name:<22}{theirs:>9,.0f}"
        f"   {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )
