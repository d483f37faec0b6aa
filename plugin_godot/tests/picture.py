"""Takes a picture of the editor with the dock in use: picture.py GODOT LIBRARY MODEL PICTURE [--light]. Needs xvfb-run.

The model should be a real one that can chat, for people will read what it says; the picture in plugin_godot/docs is made so.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = """[gd_resource type="EditorSettings" format=3]

[resource]
interface/theme/color_preset = "{preset}"
interface/theme/preset = "{preset}"
interface/editor/single_window_mode = true
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("godot")
    parser.add_argument("library")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--light", action="store_true", help="the editor's light theme")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="banter-picture-") as folder:
        folder = pathlib.Path(folder)
        project = folder / "tavern"
        shutil.copytree(HERE / "picture", project)
        shutil.copytree(HERE.parent / "addons/banter", project / "addons/banter", ignore=shutil.ignore_patterns("bin"))
        (project / "addons/banter/bin").mkdir()
        shutil.copy(options.library, project / "addons/banter/bin/libbanter_godot.so")
        (project / "models").mkdir()
        for model in options.model.parent.glob("*.gguf"):  # those beside it are listed in the dock
            (project / "models" / model.name).symlink_to(model.resolve())
        (project / ".godot").mkdir()
        (project / ".godot/extension_list.cfg").write_text("res://addons/banter/banter.gdextension\n")
        config = folder / "home/.config/godot"
        config.mkdir(parents=True)
        version = subprocess.run([options.godot, "--headless", "--version"], capture_output=True, text=True, check=True).stdout.split(".")
        (config / f"editor_settings-{version[0]}.{version[1]}.tres").write_text(SETTINGS.format(preset="Light" if options.light else "Default"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {
            "HOME": str(folder / "home"), "BANTER_PICTURE": str(options.picture.resolve()), "BANTER_PICTURE_MODEL": f"res://models/{options.model.name}"}
        command = ["xvfb-run", "-a", "-s", "-screen 0 1280x800x24", options.godot, "--editor", "--rendering-driver", "opengl3",
                   "--audio-driver", "Dummy", "--resolution", "1280x800", "--path", str(project)]
        log = folder / "log"
        with open(log, "w") as file, subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True) as run:
            try:
                run.wait(timeout=120)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGTERM)  # the server, too
        output = log.read_text(errors="replace")
    if "PICTURE: OK" not in output:
        sys.exit(output)
    print(options.picture, f"{options.picture.stat().st_size} bytes")


main()
