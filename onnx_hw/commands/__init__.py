"""Commands: build, run, verify, infer, program, explore, and which board fits."""
