"""The messages between the master's side of a run and its workers' sides.

They ride on Locust's own custom messages. On a single process Locust hands them over directly, so
both sides work alike there.
"""

PREFLIGHT = "swarmgauge.preflight"
"""Master to one worker: {run_id, options}. Answered by PREFLIGHT_RESULT."""
PREFLIGHT_RESULT = "swarmgauge.preflight_result"
"""Worker to master: the fields of ``users.preflight.PreflightResult``."""
HELLO = "swarmgauge.hello"
"""Worker to master, once it can hear us: {client_id}. Answered by BEGIN when a run is under way."""
ROLL_CALL = "swarmgauge.roll_call"
"""Master to each worker: {run_id, options, identity, asked_s}. Answered by PRESENT.

``identity`` is {code, files}: hashes of the suite and of the files that options name. ``asked_s``
is the master's wall clock."""
PRESENT = "swarmgauge.present"
"""Worker to master: {run_id, client_id, worker, asked_s, heard_s, answered_s, trouble}.

The instants are the question's, and the worker's wall clock; ``trouble`` says why the worker cannot
take part, or is None."""
BEGIN = "swarmgauge.begin"
"""Master to all workers: {run_id, options, identity, model, include_usage, salt, folder_name,
fleet}.

``fleet`` names the processes that share a schedule, in the order of their shares."""
PHASE = "swarmgauge.phase"
"""Master to all workers: {run_id, stage, kind, target_users, rate_rps, rate_tokens_per_s, phase,
users}."""
SHARE_ANEW = "swarmgauge.share_anew"
"""Master to all workers: {run_id, stage, from_s, fleet}. From that second of the stage's schedule
on the processes of ``fleet`` share it, in the order of their shares."""
FINISH = "swarmgauge.finish"
"""Master to all workers: {run_id}. Stop the users that still run, then send FINAL."""
TROUBLE = "swarmgauge.trouble"
"""Worker to master: {run_id, client_id, worker, text}. The worker cannot take part, and why."""
SHARE_USED = "swarmgauge.share_used"
"""Worker to master: {run_id, client_id}. Its share of ``--max-requests`` is sent."""
ASK_END = "swarmgauge.ask_end"
"""Worker to master: {run_id, worker, reason}. Going on makes no sense: end the run."""
FINAL = "swarmgauge.final"
"""Worker to master: the last report, as under REPORT_KEY."""
REPORT_KEY = "swarmgauge"
"""Where a worker's report lies in the data of Locust's ``report_to_master``: {run_id, worker,
host, in_flight, pending, health, report, rows, tallies, marks}. ``rows`` are lines of the spool."""
