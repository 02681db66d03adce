"""Width of every tensor, by what it loses and what it costs."""
