"""What the lints share: which files there are, and how a finding is told."""

import pathlib
import subprocess
import sys

CODE = (".h", ".hpp", ".c", ".cc", ".cpp", ".cu")


def arguments():
    """The repository to look at: the first argument, else the one this file stands in."""
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        return pathlib.Path(sys.argv[1]).resolve()
    return pathlib.Path(__file__).resolve().parents[2]


def files(root, *folders):
    """Files that git tracks or would track (not ignored), as paths relative to `root`, sorted; only under `folders` when given."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    done = subprocess.run(command, capture_output=True)
    if done.returncode == 0:
        names = [n for n in done.stdout.decode().split("\0") if n]
    else:  # no git here (a release archive): every file, less the build folders
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build/", ".git/"))]
        if folders:
            names = [n for n in names if any(n == f or n.startswith(f + "/") for f in folders)]
    return sorted({pathlib.Path(n) for n in names if (root / n).is_file()})


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def finish(name, findings, checked):
    """Prints the findings and ends the process: 0 without, 1 with. Nothing checked is a fault too: such a lint cannot fail."""
    if not checked:
        findings = [f"nothing to check: no file found ({name})"]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{name}: {len(findings)} finding(s)")
        sys.exit(1)
    print(f"{name}: {checked} checked, no finding")
    sys.exit(0)
