"""Link 2 of the proof: the reference of the quantized model equals golden, value by value."""
