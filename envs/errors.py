"""What can go wrong on our side of a boundary.

TurngymError
├── LevelError      no level with the asked properties was found
├── SandboxError    the sandbox itself broke; says nothing of the code that it was to run
└── ContractError   an environment breaks the text-environment contract (also an AssertionError)
"""


class TurngymError(Exception):
    """Base of the errors that are ours rather than the caller's or the model's."""


class LevelError(TurngymError):
    """No level with the asked properties was found."""


class ContractError(TurngymError, AssertionError):
    """An environment breaks the text-environment contract."""


class SandboxError(TurngymError):
    """The sandbox itself broke, or cannot be made here; says nothing of the code that it was to run."""
