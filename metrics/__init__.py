"""What is measured and how it is summed up: pure values and arithmetic, no clock, no Locust."""
