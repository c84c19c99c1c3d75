"""Text to parsed action, or to a `ParseError` value: what a model writes never raises."""

from collections.abc import Mapping
from dataclasses import dataclass

SEPARATOR = "||"


@dataclass(frozen=True)
class ParseError:
    """Why a reply could not be read.

    Attributes:
        reason: One sentence for the model, without a quotation of what it wrote.
    """

    reason: str


def parse_moves(text: str, codes: Mapping[str, int], limit: int) -> tuple[int, ...] | ParseError:
    """Read one or several moves, all or nothing.

    Args:
        text: The reply. Surrounding white space is ignored, case does not matter, and nothing but moves may be in it.
        codes: Move names in lower case, and the code of each.
        limit: How many moves, joined by `||`, one reply may hold; at least 1.

    Returns:
        The codes in order, at least one; or a `ParseError` that says what was expected.
    """
    code = codes.get(text.strip().lower())
    if code is not None:
        return (code,)
    names = text.split(SEPARATOR, limit)
    if len(names) > limit:
        return ParseError(f"At most {limit} {'move is' if limit == 1 else 'moves are'} allowed in one reply.")
    moves = tuple(codes.get(name.strip().lower(), -1) for name in names)
    return moves if -1 not in moves else ParseError("I could not read a move.")
