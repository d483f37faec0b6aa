"""The addon's zip in projects that no editor has seen: dropin_test.py GODOT LIBRARY. What a user does, in the real editor without a screen.

One opens the project, and enables the plugin there; another one has it in project.godot already and begins with --import, as scripts do.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BANTER, PROBE = "res://addons/banter/plugin.cfg", "res://addons/probe/plugin.cfg"
BAD = re.compile(r"^.*(ERROR|Leaked instance|PARSE).*$", re.M)


def unpacked(archive, project, plugins):
    """A project with nothing but the addon, and the probe beside it."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(project)
    (project / "addons/probe").mkdir()
    for path in (HERE / "dropin").iterdir():
        (project / "addons/probe" / path.name).write_bytes(path.read_bytes())
    enabled = ", ".join(f'"{plugin}"' for plugin in plugins)
    (project / "project.godot").write_text(f"config_version=5\n\n[editor_plugins]\n\nenabled=PackedStringArray({enabled})\n")
    if (project / ".godot").exists():
        sys.exit("the package brings a folder .godot")


def run(godot, project, *options, probe=""):
    home = project.with_name("home")
    home.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(home), "BANTER_PROBE": probe}
    command = [godot, "--headless", "--path", project, *options]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90, text=True, errors="replace")
    except subprocess.TimeoutExpired as expired:
        sys.exit(f"{options}: not at its end after 90 s\n{(expired.stdout or b'').decode(errors='replace')}")
    return done.returncode, done.stdout


def expect(project, what, outcome, *states):
    code, output = outcome
    seen = re.findall(r"^PROBE: (.*)$", output, re.M)
    faults = BAD.findall(output)
    listed = (project / ".godot/extension_list.cfg").read_text().split()
    if code != 0 or seen != list(states) or BAD.search(output) or listed != ["res://addons/banter/banter.gdextension"]:
        sys.exit(f"{what} ({code}): {seen}, {faults}, {listed}\n{output}")


def main():
    godot, library = sys.argv[1:]
    ready = "4 classes, plugin true, 1 docks, autoload "
    with tempfile.TemporaryDirectory(prefix="banter dropin ü ") as folder:
        folder = pathlib.Path(folder)
        archive = folder / "addon.zip"
        subprocess.run([sys.executable, "-B", HERE.parent / "package.py", library, archive], check=True, stdout=subprocess.PIPE)
        first, second = folder / "first/project", folder / "second/project"
        unpacked(archive, first, [PROBE])
        expect(first, "opened and enabled", run(godot, first, "--editor", probe="enable"), "4 classes, plugin false, 0 docks, autoload missing", ready + "set")
        unpacked(archive, second, [BANTER, PROBE])
        code, output = run(godot, second, "--import")
        # Godot 4.6 may crash in its own code when it ends, after all work is done, if it has just found an extension that has classes.
        if code not in (0, -6, 134, -11, 139) or "loading_editor_layout" not in output:
            sys.exit(f"the first import ({code}):\n{output}")
        expect(second, "imported once", (0, output))
        expect(second, "imported again", run(godot, second, "--import"))
        expect(second, "opened with the plugin", run(godot, second, "--editor", probe="look"), *[ready + "missing"] * 2)
        print(f"the addon works where it was unpacked; the first import ended with {code}")


main()
