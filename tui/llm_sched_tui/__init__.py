"""llm-sched-tui: watch runs contend for slots. Reads the ledger without a lock and changes nothing."""
