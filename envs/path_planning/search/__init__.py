"""Planners on grid maps, each with its expansions counted: A*, weighted A*, R* and RStar2."""
