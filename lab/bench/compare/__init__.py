"""The comparison of all strategies: measured, judged, drawn, written down."""
