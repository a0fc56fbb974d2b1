"""From a saved run to what people read: ``python -m reports RUN``."""
