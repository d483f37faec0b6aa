"""The shared library needs the system's C library and nothing else, so that a game ships one file.

usage: dependencies.py PATH_OF_LIBBANTER
"""

import re
import subprocess
import sys

ALLOWED = re.compile(r"^(libc\.so\.6|libm\.so\.6|ld-linux[-a-z0-9_]*\.so\.\d|libpthread\.so\.0|libdl\.so\.2)$")


def main():
    done = subprocess.run(["readelf", "-d", sys.argv[1]], capture_output=True, text=True, check=True)
    needed = re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", done.stdout)
    extra = [n for n in needed if not ALLOWED.match(n)]
    for name in extra:
        print(f"{sys.argv[1]}: needs {name}; link it statically")
    if not needed:
        print(f"{sys.argv[1]}: not a shared library, or it names no needed library")
    print("needed: " + ", ".join(needed))
    sys.exit(1 if extra or not needed else 0)


main()
