"""The four screens and the help: they arrange widgets, and tell each its part of the view."""
