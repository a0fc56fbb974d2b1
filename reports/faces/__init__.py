"""The faces of one report: the same figures for a terminal, a program, a CI system and a reader."""
