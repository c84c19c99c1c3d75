"""Planning on grid maps: maps and their formats, search, and the environments."""
