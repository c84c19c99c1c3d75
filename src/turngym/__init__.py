"""Gymnasium environments for language agents: text in, text out.

Importing the package registers its environments with Gymnasium, so that `gymnasium.make("TextFrozenLake-v0")`
works; `gymnasium.make("turngym:TextFrozenLake-v0")` imports the package by itself. Nothing here imports torch.
"""

from turngym import envs as envs

__version__ = "0.1.0"
