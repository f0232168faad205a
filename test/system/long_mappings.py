#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_mappings.py with enough registrations to reach vm.max_map_count."""
import os

os.environ["UROCE_MAPPINGS_ROUNDS"] = "2000"
import test_mappings  # pylint: disable=wrong-import-position,unused-import
