/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KIT_REQUIREMENT_H
#define KIT_REQUIREMENT_H

/*
 * Names the requirements of doc/requirements.txt that a test proves. It expands to nothing;
 * test/lint/conformance.py reads it. It is the line above
 *  - the test: REQUIREMENT("CQE-16", "NAK-06"),
 *  - calls of a macro that defines tests and takes the name as its first argument: it holds for all
 *    calls up to the next blank line.
 * A row of a table of tests, a Python test and a test in meson.build have a comment in the line
 * above instead, which is "Requirements: CQE-16, NAK-06".
 */
#define REQUIREMENT(...)

#endif
