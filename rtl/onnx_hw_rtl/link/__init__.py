"""Link between a board and its host."""
