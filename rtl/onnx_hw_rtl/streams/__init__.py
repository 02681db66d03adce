"""Streams, engines, outboxes and buffers: the firing law as a circuit."""
