"""Work in several processes at a time: children of this one that end with it."""
