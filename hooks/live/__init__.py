"""The live page: what a run has shown so far, for the person at the wheel.

``points``, ``series`` and ``windows`` are pure; ``run`` feeds them from the workers' reports,
``answers`` says what changed, and ``routes`` puts the page into Locust's own.
"""
