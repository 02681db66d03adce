"""The family Gowin Arora V: GW5A and GW5AST."""
