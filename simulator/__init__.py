"""An embedded OpenAI-compatible endpoint whose queue and batching are known exactly.

`engine` is the capacity model in virtual time, `driver` runs it against the wall, `app` is its
HTTP face.  Nothing here is shared with the load generator: where the two agree, both are right.
"""
