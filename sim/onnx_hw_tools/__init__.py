"""Programs of others: where they are, and running them."""
