"""From real numbers to integers: calibration, QDQ import, exact requantization."""
