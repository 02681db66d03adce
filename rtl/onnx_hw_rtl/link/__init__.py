"""Link between a chip and its host."""
