"""The measured clients: each module is one program that prints one JSON line and ends.

Those on gevent are started as ``python -m gevent.monkey --module bench.loads.NAME``, so that a
client pays for its own imports only.
"""
