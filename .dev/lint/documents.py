"""Documents: the C code in README.md compiles as C99 against the public headers, and links to files lead to files."""

import re
import subprocess

from common import arguments, files, finish, read


def snippet_findings(root, path, text):
    for number, code in enumerate(re.findall(r"^```c\n(.*?)^```", text, re.S | re.M), 1):
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", str(root / "sdk/include"), "-x", "c", "-"]
        done = subprocess.run(command, input=code, text=True, capture_output=True)
        if done.returncode != 0:
            yield f"{path}: C snippet {number} does not compile:\n{done.stderr.strip()}"


def link_findings(root, path, text):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        if not (root / path.parent / target).exists():
            yield f"{path}: links to {target}, which is not there"


def main():
    root = arguments()
    findings, checked = [], 0
    for path in files(root):
        if path.suffix != ".md":
            continue
        checked += 1
        text = read(root / path)
        findings.extend(link_findings(root, path, text))
        findings.extend(snippet_findings(root, path, text))
    finish("documents", findings, checked)


main()
