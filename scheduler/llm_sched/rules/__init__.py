"""The law: pure decisions about a ledger. Time, ids and who is alive are arguments; nothing here asks the machine."""
