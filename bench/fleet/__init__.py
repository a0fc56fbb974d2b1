"""What a fleet's reports cost its master: made-up workers, a real master."""
