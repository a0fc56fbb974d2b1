"""The messages between the master's side of a run and its workers' sides.

They ride on Locust's own custom messages. On a single process Locust hands them over directly, so
both sides work alike there.
"""

PREFLIGHT = "swarmgauge.preflight"
"""Master to one worker: {run_id, options}. Answered by PREFLIGHT_RESULT."""
PREFLIGHT_RESULT = "swarmgauge.preflight_result"
"""Worker to master: the fields of ``users.preflight.PreflightResult``."""
BEGIN = "swarmgauge.begin"
"""Master to all workers: {run_id, options, model, include_usage, salt, folder_name, fleet}.

``fleet`` names the processes that share a schedule, in the order of their shares."""
PHASE = "swarmgauge.phase"
"""Master to all workers: {run_id, stage, kind, target_users, rate_rps, rate_tokens_per_s, phase,
users}."""
FINISH = "swarmgauge.finish"
"""Master to all workers: {run_id}. Stop the users that still run, then send FINAL."""
TROUBLE = "swarmgauge.trouble"
"""Worker to master: {run_id, worker, text}. The worker cannot take part, and why."""
ASK_END = "swarmgauge.ask_end"
"""Worker to master: {run_id, worker, reason}. Going on makes no sense: end the run."""
FINAL = "swarmgauge.final"
"""Worker to master: the last report, as under REPORT_KEY."""
REPORT_KEY = "swarmgauge"
"""Where a worker's report lies in the data of Locust's ``report_to_master``: {run_id, worker,
host, in_flight, health, rows, tallies, marks}."""
