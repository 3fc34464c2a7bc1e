"""Side-by-side benchmark of llm-sched and what one would use instead.

Run from the root of the repository, with the ``test`` extra installed::

    python -m tests.benchmarks            # everything, at most about twelve minutes on two cores
    python -m tests.benchmarks --quick    # one short round, one to two minutes
    python -m tests.benchmarks --help

Every round does the same work with every peer, one after the other, and starts with another peer each time, so
that a slow minute of the machine hits all of them. Figures are medians over rounds; what counts is their ratio
within one run. It is not a timed test: a figure that misses its target is shown, and only a broken cap ends it
with 1. The cap is checked by `witness.py` from time stamps that the calling threads took themselves.
"""
