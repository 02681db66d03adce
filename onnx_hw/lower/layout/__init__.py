"""Orders of the elements of streams: layouts, and the removal of rearrangements."""
