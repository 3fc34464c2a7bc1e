"""`mas-ctl` beside the host's own: whichever script survived the installation, the host's command is what runs."""

from __future__ import annotations

import os

from chat_support import Shell
from manifest_support import Folder


def install(folder: Folder, module: str, entry: str) -> str:
    """Install a distribution that also has a script `mas-ctl`; return its place."""
    site = folder.path.parent / "site"
    other = Folder(site)
    other.write("mas_ctl_of_the_host.py", module)
    other.write("the_host-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: the-host\nVersion: 1.0\n")
    other.write("the_host-1.0.dist-info/entry_points.txt", f"[console_scripts]\nmas-ctl = {entry}\n")
    return f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"


def test_the_hosts_command_runs_with_its_arguments_and_its_exit_code(shell: Shell, folder: Folder) -> None:
    """Ours steps back entirely: arguments, output and exit code are the other's."""
    module = "import sys\ndef main():\n    print('host', *sys.argv)\n    return 7\n"
    path = install(folder, module, "mas_ctl_of_the_host:main")
    result = shell.run("mas-ctl chat agent.yaml --tool calc", PYTHONPATH=path)
    assert (result.returncode, result.stdout) == (7, "host mas-ctl chat agent.yaml --tool calc\n")


def test_llm_sched_chat_stays_ours(shell: Shell, folder: Folder) -> None:
    """Under our own name the command is ours whatever is installed."""
    path = install(folder, "def main(): raise SystemExit(7)\n", "mas_ctl_of_the_host:main")
    assert shell.run("llm-sched chat agent.yaml --infra-ref standard:mock-llm -q hi", PYTHONPATH=path).returncode == 0


def test_a_broken_host_is_named(shell: Shell, folder: Folder) -> None:
    """A host whose entry point cannot be loaded is one line, and what else there is."""
    path = install(folder, "import no_such_module_here\n", "mas_ctl_of_the_host:main")
    result = shell.run("mas-ctl chat agent.yaml", PYTHONPATH=path)
    assert result.returncode == 1
    assert result.stderr.startswith("mas-ctl: the one of the-host cannot be loaded (No module named 'no_such_module_here')")
    assert "llm-sched chat" in result.stderr
    assert "Traceback" not in result.stderr
