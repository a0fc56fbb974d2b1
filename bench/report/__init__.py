"""How long a report takes, and how much memory, by the number of requests."""
