"""From the bytes of an answer to chat events and one reply: no socket, no clock, no Locust."""
