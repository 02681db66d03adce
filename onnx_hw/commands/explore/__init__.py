"""Many builds of one network: which choices there are, which of them are worth their time, and what became of each."""
