"""How often a comparison of two runs is right: ``python -m bench.compare``."""
