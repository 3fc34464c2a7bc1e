"""Tools around the monitor: a real contention to look at, the README's picture, what the monitor costs.

python -m tests.monitor.contention --state FILE [--seconds S] [--record FILE]
python -m tests.monitor.picture
python -m tests.monitor.cost
"""
