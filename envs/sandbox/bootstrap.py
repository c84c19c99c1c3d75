"""First file that a warm process runs: `python bootstrap.py CONFIG DESCRIPTOR`.

The packages around this folder would import numpy and Gymnasium. Empty stand-ins for them keep the process small.
"""

import json
import os
import sys
from importlib import import_module
from types import ModuleType


def _stand_in(name: str, folder: str | None = None) -> None:
    module = ModuleType(name)
    module.__path__ = [folder] if folder else []
    sys.modules[name] = module


if __name__ == "__main__":
    _stand_in("turngym")
    _stand_in("turngym.envs")
    _stand_in("turngym.envs.sandbox", os.path.dirname(os.path.abspath(__file__)))
    import_module("turngym.envs.sandbox.zygote").main(json.loads(sys.argv[1]), int(sys.argv[2]))
