"""Folders and file lengths: which top-level folders may exist; files over 600 lines are named, over 1000 they fail."""

from common import CODE, arguments, files, finish, read

TOP = {"sdk", "plugin_unreal", "plugin_godot", "samples", "tests"}
LOOK, LIMIT = 600, 1000


def main():
    root = arguments()
    findings, checked, longest = [], 0, []
    for path in files(root):
        if len(path.parts) > 1 and path.parts[0] not in TOP and not path.parts[0].startswith("."):
            findings.append(f"{path}: the top level holds only {', '.join(sorted(TOP))} and dot-folders")
        if path.suffix not in CODE and path.suffix != ".py":
            continue
        checked += 1
        lines = read(root / path).count("\n")
        longest.append((lines, path))
        if lines > LIMIT:
            findings.append(f"{path}: {lines} lines, the limit is {LIMIT}: split it")
    for lines, path in sorted(longest, reverse=True):
        if lines > LOOK:
            print(f"note: {path}: {lines} lines; look whether it should be two files")
    lengths = sorted(n for n, _ in longest)
    if lengths:
        print(f"file length: median {lengths[len(lengths) // 2]}, 90 % below {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}")
    finish("folders and file lengths", findings, checked)


main()
