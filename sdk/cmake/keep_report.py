"""A compiler launcher for nvcc: runs the command, and keeps what ptxas reports of each kernel in <object>.ptxas.

The report goes to stderr, where a build system shows or drops it; warnings and errors are passed on as they come.
"""

import re
import subprocess
import sys

REPORT = re.compile(r"^(ptxas info|\s+Function properties for |\s+\d+ bytes stack frame, |\s*Function properties|\s*Compile time = )")


def main():
    command = sys.argv[1:]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    kept, passed = [], []
    for line in done.stderr.splitlines(keepends=True):
        (kept if REPORT.match(line) else passed).append(line)
    sys.stderr.write("".join(passed))
    if done.returncode == 0 and kept and "-o" in command[:-1]:
        with open(command[command.index("-o") + 1] + ".ptxas", "w", encoding="utf-8") as file:
            file.writelines(kept)
    sys.exit(done.returncode)


main()
