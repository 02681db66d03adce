"""Tables and lines of the terminal."""
