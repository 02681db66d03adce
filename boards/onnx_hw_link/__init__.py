"""A network on a board, from the host: packets over a serial line, and a driver that cannot hang."""
