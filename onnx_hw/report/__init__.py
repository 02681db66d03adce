"""What a build says about itself: ``report.json`` and the tables on the terminal."""
