"""Words that may stand in no file: hosts of package registries, and paths of the machine it was written on."""

import re

from common import arguments, files, finish, read

# Put together here so that this file does not name them itself.
HOSTS = [".".join(p) for p in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "com"), ("npmjs", "org"), ("crates", "io"),
                               ("deb", "debian", "org"), ("security", "debian", "org"), ("proxy", "golang", "org"), ("maven", "org"))]
FOLDERS = ["/" + f + "/" for f in ("work", "root", "home/[a-z]+")]
RULES = [
    (re.compile("|".join(re.escape(h) for h in HOSTS), re.I), "names a package registry's host; say its name only"),
    # Not the middle of an URL or of a longer path: what stands before the slash is no part of a name.
    (re.compile(r"(?<![\w.~}\)/-])(?:" + "|".join(FOLDERS) + ")"), "an absolute path of one machine"),
    (re.compile(r"^(<{7}|={7}|>{7})( |$)", re.M), "a merge conflict's mark"),
]
BINARY = {".png", ".jpg", ".gguf", ".bin", ".zip", ".ttf", ".uasset"}


def main():
    root = arguments()
    findings, checked = [], 0
    for path in files(root):
        if path.suffix in BINARY or "corpus" in path.parts:
            continue
        checked += 1
        text = read(root / path)
        for pattern, why in RULES:
            for match in pattern.finditer(text):
                findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)!r}: {why}")
    finish("forbidden words", findings, checked)


main()
