"""What RESULTS.md shows, trained and written by `python results/run.py`."""
