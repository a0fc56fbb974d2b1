"""Adapters between the pure parts and Locust's events: recording, exchange, run begin and end."""
