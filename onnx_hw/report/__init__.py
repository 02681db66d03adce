"""Report of a build: ``report.json``, ``report.html``, and what the terminal shows of them."""
