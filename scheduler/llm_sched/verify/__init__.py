"""`llm-sched verify`: workers that are killed, forked, cancelled and interrupted, and a witness who is not the ledger."""

# Law: what happens is written down by those it happens to (`journal`), put together (`account`), turned into numbers
# (`figures`) and judged (`verdict`); these know neither processes nor clocks. `crew`, `storm` and `run` make it happen.
