"""The simulated users and the transports they speak through."""
