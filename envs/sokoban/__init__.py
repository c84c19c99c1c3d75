"""Sokoban: rules, level formats, exact solvers, a generator that proves its levels, and the environments."""
