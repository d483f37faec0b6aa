"""Exports a game with Godot's own export template and runs it: export_test.py release|debug headless|screen GODOT TEMPLATE LIBRARY MODEL.

The model is inside the .pck, under a name that is not ASCII; the project that it came from is gone when the game runs: headless, and with "screen" also
on one (Xvfb), where it says the same. Exits with 77, which ctest counts as skipped, where there is no template, or no screen.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run(command, environment, seconds):
    # In a group of its own, so that nothing it has started, such as a screen, outlives it.
    started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        output, _ = started.communicate()
        sys.exit(f"{' '.join(map(str, command))}: not at its end after {seconds} s\n{output.decode(errors='replace')}")
    return started.returncode, output.decode(errors="replace")


def assemble(project, library, model, template):
    shutil.copytree(HERE / "exported", project)
    shutil.copytree(HERE.parent / "addons/banter", project / "addons/banter", ignore=shutil.ignore_patterns("bin"))
    (project / "addons/banter/bin").mkdir()
    shutil.copy(library, project / "addons/banter/bin/libbanter_godot.so")
    (project / "models").mkdir()
    shutil.copy(model, project / "models/模型.gguf")
    (project / ".godot").mkdir()
    (project / ".godot/extension_list.cfg").write_text("res://addons/banter/banter.gdextension\n")
    preset = project / "export_presets.cfg"
    preset.write_text(preset.read_text().replace("TEMPLATE", template))


def command_of(game, template):
    """How to run it: as a player would, or, where the template belongs to an unpacked newer system, with that system's loader and libraries."""
    tree = pathlib.Path(template).parents[1]
    loader = tree / "lib64/ld-linux-x86-64.so.2"
    if tree == pathlib.Path("/usr") or not loader.exists():
        return [str(game)]
    # Godot takes the loader for the game, and looks for the .pck of its name beside it.
    shutil.copy(loader, game.with_name("player"))
    game.with_name("game.pck").rename(game.with_name("player.pck"))
    libraries = tree / "lib/x86_64-linux-gnu"
    return [str(game.with_name("player")), "--library-path", f"{libraries}:{libraries / 'pulseaudio'}", str(game)]


def play(kind, command, environment):
    """Runs the game to its end. What it said."""
    code, output = run(command, environment, 80)
    said = [line for line in output.splitlines() if line.startswith("SAID:")]
    if code != 0 or f"exported: {kind}\n" not in output or "ERROR" in output or not said or len(said[0]) < 20:
        sys.exit(f"the exported game failed ({code}), {' '.join(command)}:\n{output}")
    return said[0], output


def skip(why):
    print("SKIPPED:", why)
    sys.exit(77)


def main():
    kind, where, godot, template, library, model = sys.argv[1:]
    if not os.access(template, os.X_OK):
        skip(f"there is no export template (godot-template-{kind}) for {godot}; ./dev godot brings one for a Godot in its own cache; for another one "
             f"configure with -DBANTER_GODOT_TEMPLATE{'_DEBUG' if kind == 'debug' else ''}=FILE.")
    if where == "screen" and shutil.which("xvfb-run") is None:
        skip("there is no screen: xvfb-run is not installed (Debian's packages xvfb and xauth).")
    with tempfile.TemporaryDirectory(prefix="banter export ü ") as folder:
        folder = pathlib.Path(folder)
        assemble(folder / "project", library, model, template)
        for name in ("home", "out"):
            (folder / name).mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(folder / "home")}
        game = folder / "out/game"
        code, output = run([godot, "--headless", "--path", str(folder / "project"), f"--export-{kind}", "Linux", str(game)], environment, 100)
        if code != 0 or "ERROR" in output or not game.with_name("libbanter_godot.so").exists():
            sys.exit(f"the export failed ({code}):\n{output}")
        shutil.rmtree(folder / "project")
        command = command_of(game, template)
        said, _ = play(kind, [*command, "--headless"], environment)
        print("the exported game", said)
        if where == "screen":
            on_screen, output = play(kind, ["xvfb-run", "-a", *command, "--rendering-driver", "opengl3", "--audio-driver", "Dummy"], environment)
            if on_screen != said or "OpenGL" not in output:
                sys.exit(f"on a screen it went otherwise:\n{output}")
            print("the same on a screen")


main()
