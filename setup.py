"""Builds the shared library with CMake and puts it into the wheel. TILEWRIGHT_LIBRARY: one that is built already."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
VERSION = re.search(r"project\(tilewright VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def built_library(folder: Path) -> Path:
    given = os.environ.get("TILEWRIGHT_LIBRARY")
    if given:
        return Path(given)
    if not shutil.which("cmake"):
        raise SystemExit("tilewright is built with CMake 3.25 or newer and g++ 12 or clang 16: install them first")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *generator, "-DCMAKE_BUILD_TYPE=Release", "-DTILEWRIGHT_TESTS=OFF"],
                   check=True)
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    subprocess.run(["cmake", "--build", str(folder), "--target", "tilewright_library", "-j", jobs], check=True)
    return folder / "libtilewright.so"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "tilewright"
        target.mkdir(parents=True, exist_ok=True)
        build_base = Path(self.get_finalized_command("build").build_base).resolve()
        shutil.copy2(built_library(build_base / "cmake"), target / "libtilewright.so")


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self):  # not for every platform, though there is no extension module
        return True


setup(version=VERSION, distclass=Binary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython},
      options={"build": {"build_base": "build/python"}})
