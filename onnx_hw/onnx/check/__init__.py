"""Rules of the ONNX specification, one file per subject."""
