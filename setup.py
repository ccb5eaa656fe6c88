"""Ships `elmo_plugin_startup.pth` at the root of site-packages; everything else is in setup.cfg.

Python only reads `.pth` files at that root, and no setting in setup.cfg puts a file there: package data lands inside a
package and `data_files` under `sys.prefix`. So the step that collects Python modules copies this file too.
"""

import os

from setuptools import setup
from setuptools.command.build_py import build_py

STARTUP_FILE = "elmo_plugin_startup.pth"


class BuildWithStartupFile(build_py):
    """`build_py`, plus the one file that has to lie beside the packages."""

    def run(self) -> None:
        super().run()
        self.copy_file(STARTUP_FILE, os.path.join(self._site_packages_root(), STARTUP_FILE), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list:
        return [*super().get_outputs(include_bytecode), os.path.join(self._site_packages_root(), STARTUP_FILE)]

    def _site_packages_root(self) -> str:
        """The folder whose contents are unpacked into site-packages."""
        if self.editable_mode:
            # An editable wheel leaves the modules where they are and throws `build_lib` away. What has to be installed
            # all the same goes into the unpacked wheel, which setuptools hands to `install` as its library folder.
            return self.get_finalized_command("install").install_lib
        return self.build_lib


setup(cmdclass={"build_py": BuildWithStartupFile})
