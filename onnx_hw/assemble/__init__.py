"""Circuit of a design, with the shell that its board needs."""
