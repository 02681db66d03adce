"""Canonical form: a model is rewritten into the few forms of operators that are lowered; a module is one rewriting."""
