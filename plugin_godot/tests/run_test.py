"""Whether run.py finds what it is there to find: run_test.py GODOT LIBRARY. Each planted fault must fail; what has none must pass."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# The body of test(), and what run.py says.
CASES = {
    "pass": ("", "passed"),
    "a check": ('check(false, "planted")', "CHECK FAILED: planted"),
    "an error of the script": ("var nothing = null\n\tnothing.call_this()", "SCRIPT ERROR"),
    "a script that stops": ("quit(0)\n\tawait create_timer(1).timeout", "did not come to its end"),
    "a leaked node": ("BanterNPC.new()", "Leaked instance"),
    "a pushed error": ('push_error("planted")', "ERROR: planted"),
    "another exit code": ("quit.call_deferred(3)\n\tawait process_frame\n\tawait process_frame", "Godot ended with 3"),
}


def main():
    godot, library = sys.argv[1:]
    wrong = []
    for name, (body, wanted) in CASES.items():
        done = subprocess.run([sys.executable, "-B", HERE / "run.py", "--godot", godot, "--library", library, "--script", "planted",
                               "--source", f'extends "res://check.gd"\n\nfunc test() -> void:\n\t{body or "pass"}\n'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = done.stdout.decode(errors="replace")
        if (done.returncode == 0) != (name == "pass") or wanted not in output:
            wrong.append(f"{name}: exit code {done.returncode}, and no {wanted!r} in:\n{output[-1500:]}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"run.py finds {len(CASES) - 1} planted faults")


main()
