"""Order of the elements of streams: layouts, and rearrangements at the border."""
