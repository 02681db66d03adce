"""Values of the compiler: Network, Design, what they mean, and their verifiers."""
