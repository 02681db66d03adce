"""What a user meets: options in, lines out. Nothing is decided here."""
