"""Generated limiters of known kind and figure, and how well they are told from outside."""
