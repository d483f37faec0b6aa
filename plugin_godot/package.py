"""Makes the zip for Godot's asset store: package.py LIBRARY ZIP [--cuda LIBRARY]. Prints the path and the size.

The same files give the same bytes: entries are sorted, and their times are fixed. Everything is in addons/banter: the addon as it is in the
repository, the library without its symbols, README, LICENSE and the notices of what is inside the library.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ADDON = HERE / "addons/banter"
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can tell
# What an editor or a build leaves in the folder, and is none of the addon's.
FOREIGN = {".import", ".so", ".tmp", ".pyc"}
DEPENDENCIES = '\n[dependencies]\n\nlinux.x86_64 = { "bin/libbanter_cuda.so": "" }\n'


def stripped(library, folder):
    """The library's bytes without what only a debugger needs."""
    out = folder / library.name
    subprocess.run(["strip", "--strip-unneeded", "-o", out, library], check=True)
    return out.read_bytes()


def own_readme(text):
    """The README without what stays behind: pictures, and the demo."""
    text = re.sub(r"^## Demo\n.*?(?=^## )", "", text, flags=re.M | re.S)
    return "".join(line for line in text.splitlines(True) if not line.startswith("!["))


def contents(library, cuda):
    entries = {}
    for path in sorted(ADDON.rglob("*")):
        if path.is_file() and path.suffix not in FOREIGN and "bin" not in path.relative_to(ADDON).parts:
            entries[path.relative_to(ADDON).as_posix()] = path.read_bytes()
    entries["README.md"] = own_readme((HERE / "README.md").read_text()).encode()
    entries["THIRDPARTY.md"] = (HERE.parent / "THIRDPARTY.md").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        entries["bin/libbanter_godot.so"] = stripped(library, pathlib.Path(folder))
        if cuda:
            entries["bin/libbanter_cuda.so"] = stripped(cuda, pathlib.Path(folder))
            entries["banter.gdextension"] += DEPENDENCIES.encode()
    return entries


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("zip", type=pathlib.Path)
    parser.add_argument("--cuda", type=pathlib.Path, help="libbanter_cuda.so of the same sources")
    options = parser.parse_args()
    with zipfile.ZipFile(options.zip, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(contents(options.library, options.cuda).items()):
            entry = zipfile.ZipInfo("addons/banter/" + name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data)
    print(options.zip.resolve(), f"({options.zip.stat().st_size / 1e6:.1f} MB)")


main()
