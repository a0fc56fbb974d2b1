"""How well the search finds knees that are known: ``python -m bench.knee``."""
