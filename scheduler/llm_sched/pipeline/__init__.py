"""What stands around the scheduler: cache -> scheduler -> provider, as engines that wrap engines.

`import llm_sched` loads nothing from here, and nothing here loads `openai` before its first call.
"""
