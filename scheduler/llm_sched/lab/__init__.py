"""Experiments: every prompt of a data set, in every scenario, several times, in parallel processes, at one pace.

What is done is on disk, one line of JSON each, so that an experiment that was ended in any way goes on where it was.
"""
