"""Two runs and more against each other, and a gate for CI: ``python -m reports compare | gate``."""
