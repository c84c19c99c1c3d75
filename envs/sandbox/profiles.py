"""What a warm process has imported before a session is forked from it."""

import re
from typing import Literal, get_args

Profile = Literal["auto", "stdlib", "math", "science"]

_MATH = ("numpy", "numpy.random", "numpy.linalg", "sympy")
_SCIENCE = (*_MATH, "scipy", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats")
MODULES: dict[str, tuple[str, ...]] = {"stdlib": (), "math": _MATH, "science": _SCIENCE}
_LIBRARIES = {"numpy": "math", "sympy": "math", "mpmath": "math", "scipy": "science"}
_MENTIONED = re.compile(rf"\b(?:import|from)\b[^\n#]{{0,200}}?\b({'|'.join(_LIBRARIES)})\b")


def check_profile(profile: str) -> None:
    """Refuse what is not a profile.

    Raises:
        ValueError: If it is none.
    """
    if profile not in get_args(Profile):
        raise ValueError(f"profile must be one of {', '.join(get_args(Profile))}, got {profile!r}")


def profile_of(code: str) -> str:
    """The smallest profile with everything that the code seems to import.

    A look at the text, not at the syntax: parsing millions of brackets is no work for whoever supervises.
    """
    wanted = {_LIBRARIES[name] for name in _MENTIONED.findall(code)}
    return max(wanted, key=list(MODULES).index, default="stdlib")
