"""What can go wrong on our side of a boundary.

TurngymError
├── LevelError      no level with the asked properties was found
└── ContractError   an environment breaks the text-environment contract (also an AssertionError)
"""


class TurngymError(Exception):
    """Base of the errors that are ours rather than the caller's or the model's."""


class LevelError(TurngymError):
    """No level with the asked properties was found."""


class ContractError(TurngymError, AssertionError):
    """An environment breaks the text-environment contract."""
