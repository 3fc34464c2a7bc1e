"""The monitor's view model: readings in, frozen views out.

The law of this package: pure. No clock, no file, no terminal, no Textual; the same readings and the same question give the
same view. What a number looks like is decided here, so that widgets only draw.
"""
