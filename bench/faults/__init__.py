"""Seeded faults in a running fleet, held against the simulator's log."""
