"""Load plans: pure descriptions of what load comes when, and the Locust shape that follows one."""
