"""When everything happens, by arithmetic: the firing law, its solvers, and what follows from them."""
