"""What a run has shown so far, for other programs: the master's answer to Prometheus.

``buckets`` and ``knee_so_far`` are pure; ``families`` names the metrics, ``server`` answers.
``docs/observability.md`` has them all.
"""
