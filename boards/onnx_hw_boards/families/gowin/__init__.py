"""The families Gowin LittleBee and Arora."""
