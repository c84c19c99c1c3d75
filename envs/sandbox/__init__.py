"""Runs Python that a model wrote: warm processes, forked into sessions, isolated as far as the machine allows.

```python
async with Sandbox() as sandbox:
    session = await sandbox.session(profile="math", seed=0)
    result = await session.run("import sympy; sympy.factorint(2**64 + 1)", timeout_s=2)
    print(result.status, result.stdout)
```

`SyncSandbox` is the same without `await`, for any number of threads. docs/sandbox.md says what is held and what is not.
Only the standard library is needed. Nothing that comes out of a sandbox is a reward: compute that outside.
"""

from typing import TYPE_CHECKING, Any

from turngym.lazy import lazy_exports

if TYPE_CHECKING:
    from turngym.envs.sandbox.results import STATUSES as STATUSES
    from turngym.envs.sandbox.results import ExecResult as ExecResult
    from turngym.envs.sandbox.results import Limits as Limits
    from turngym.envs.sandbox.results import Status as Status
    from turngym.envs.sandbox.session import Session as Session
    from turngym.envs.sandbox.supervisor import Sandbox as Sandbox
    from turngym.envs.sandbox.sync import SyncSandbox as SyncSandbox
    from turngym.envs.sandbox.sync import SyncSession as SyncSession
    from turngym.envs.sandbox.sync import default_sandbox as default_sandbox

_EXPORTS = {
    "STATUSES": "turngym.envs.sandbox.results",
    "ExecResult": "turngym.envs.sandbox.results",
    "Limits": "turngym.envs.sandbox.results",
    "Status": "turngym.envs.sandbox.results",
    "Sandbox": "turngym.envs.sandbox.supervisor",
    "Session": "turngym.envs.sandbox.session",
    "SyncSandbox": "turngym.envs.sandbox.sync",
    "SyncSession": "turngym.envs.sandbox.sync",
    "default_sandbox": "turngym.envs.sandbox.sync",
}


def __getattr__(name: str) -> Any:
    return lazy_exports(__name__, _EXPORTS, name)
