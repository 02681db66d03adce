"""A network on a board, from the host: packets over a serial line,."""
