"""`python -m llm_sched_tui` is `llm-sched-tui`."""

from llm_sched_tui.cli import main

if __name__ == "__main__":
    main()
