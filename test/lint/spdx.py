#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every source file names its licence in one of its first lines."""
import tree

SOURCES = ('.c', '.h', '.py', '.sh', '.map', 'meson.build')

LINE = 'SPDX-License-Identifier: BSD-3-Clause'

# The first line may be a #! line.
tree.finish('licence lines', [f'{name}: no "{LINE}" in its first lines' for name in tree.files(*SOURCES)
                              if LINE not in '\n'.join(tree.text(name).splitlines()[:3])])
