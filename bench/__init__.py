"""Commands that start the suite for measuring and for showing: the first ramp, and benchmarks."""
