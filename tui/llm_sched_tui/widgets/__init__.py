"""Widgets that only draw: a value in, cells out, messages of their own out. They open nothing and read no clock."""
