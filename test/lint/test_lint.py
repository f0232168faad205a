#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each lint script finds its problem: the tests run it on a small tree with one error."""
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SPDX = '/* SPDX-License-Identifier: BSD-3-Clause */\n'


class Lint(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / 'test/lint').mkdir(parents=True)
        for script in HERE.glob('*.py'):
            shutil.copy(script, self.root / 'test/lint')
        shutil.copy(HERE.parents[1] / '.clang-format', self.root)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def lint(self, script, *args):
        # Without .git the scripts take every file.
        run = subprocess.run([sys.executable, self.root / 'test/lint' / script, *args],
                             capture_output=True, text=True, timeout=600,
                             env={'PATH': '/usr/bin:/bin', 'GIT_CEILING_DIRECTORIES': str(self.root)})
        return run.returncode, run.stdout + run.stderr

    def expect(self, script, word, *args):
        """The script fails and its output contains word."""
        rc, output = self.lint(script, *args)
        self.assertEqual(rc, 1, output)
        self.assertIn(word, output)

    def test_reason_missing_in_its_doc(self):
        self.put('include/uroce/errors.h', SPDX + '\tX(0x101, A, "a", "is a", \\\n\t  "mend a")\n')
        self.put('doc/errors.md', '# Reasons\n')
        self.expect('errors_doc.py', 'lacks the row: | 0x101')
        self.put('doc/errors.md', '| 0x101 | `a` | is a | mend a |\n')
        self.assertEqual(self.lint('errors_doc.py')[0], 0)

    def test_include_from_above(self):
        self.put('lib/qp/qp.h', SPDX)
        self.put('lib/wire/bad.c', SPDX + '#include "qp/qp.h"\n')
        self.expect('include_rules.py', 'lib/wire/bad.c:2')

    def test_include_of_ethdev_in_the_engine(self):
        self.put('lib/qp/bad.c', SPDX + '#include <rte_ethdev.h>\n')
        self.expect('include_rules.py', 'rte_ethdev.h')

    def test_include_of_dpdk_in_the_provider(self):
        self.put('drivers/verbs/bad.c', SPDX + '#include <rte_mbuf.h>\n')
        self.expect('include_rules.py', 'rte_mbuf.h')

    def test_include_of_the_daemons_side_in_the_provider(self):
        self.put('lib/ipc/server.h', SPDX)
        self.put('drivers/verbs/bad.c', SPDX + '#include "ipc/server.h"\n')
        self.expect('include_rules.py', 'lib/ipc/server.h')

    def test_include_of_nothing(self):
        self.put('lib/qp/bad.c', SPDX + '#include "wire/none.h"\n')
        self.expect('include_rules.py', 'no include root')

    def test_good_includes_pass(self):
        self.put('lib/wire/hdr.h', SPDX)
        self.put('lib/qp/good.c', SPDX + '#include <stdint.h>\n#include <rte_mbuf.h>\n#include "wire/hdr.h"\n')
        self.assertEqual(self.lint('include_rules.py')[0], 0)

    def banned(self, line):
        self.put('lib/responder/bad.c', SPDX + line + '\n')
        _, output = self.lint('banned_tokens.py')
        return 'lib/responder/bad.c:2' in output

    def test_banned_calls(self):
        for line in ('x = malloc(3);', 'printf("x");', 'pthread_mutex_lock(&m);', 't = time(NULL);',
                     'now = rte_rdtsc();', 'r = rte_rand();', 'write(fd, b, 1);', 'abort();'):
            with self.subTest(line):
                self.assertTrue(self.banned(line))

    def test_what_only_looks_like_them(self):
        for line in ('/* malloc(3) */', '// free(p)', 's = "write(1)";', 'ops->read(x);', 'o.write(x);',
                     'resp_execute(x);', 'runtime(x);'):
            with self.subTest(line):
                self.assertFalse(self.banned(line))

    def test_page_as_a_constant(self):
        for line in ('x &= ~4095ul;', 'n = PAGE_SIZE;', 'mmap(0, 4096, 0, 0, 0, 0);', 'n = 1ul << 12;'):
            with self.subTest(line):
                self.put('drivers/verbs/bad.c', SPDX + line + '\n')
                self.expect('page_size.py', 'drivers/verbs/bad.c:2')
        self.put('drivers/verbs/bad.c', SPDX + '/* 4096 */ n = page_bytes(); m = 14096;\n')
        self.assertNotIn('drivers/verbs/bad.c', self.lint('page_size.py')[1])

    def test_engine_that_reads_a_clock(self):
        clock, name = (('mrs %0, cntvct_el0', 'mrs') if platform.machine() == 'aarch64' else ('rdtsc', 'rdtsc'))
        for body, word in (('long f(void) { long t; __asm__("%s" : "=r"(t)); return t; }' % clock, f'instruction {name}'),
                           ('extern long time(long *);\nlong f(void) { return time(0); }', 'refers to time'),
                           ('void *f(void) { return __builtin_malloc(3); }', 'refers to malloc')):
            with self.subTest(word):
                self.put('lib/engine/bad.c', SPDX + body + '\n')
                self.expect('engine_purity.py', 'lib/engine/bad.c: ', 'cc')
                self.expect('engine_purity.py', word, 'cc')

    def test_header_that_needs_another(self):
        self.put('include/uroce/bad.h', SPDX + 'static inline uint32_t f(void) { return 1; }\n')
        self.expect('headers_alone.py', 'include/uroce/bad.h', 'cc', 'c++')

    def test_header_that_is_c_only(self):
        self.put('include/uroce/bad.h', SPDX + 'static inline int *f(void *p) { return p; }\n')
        self.expect('headers_alone.py', 'include/uroce/bad.h', 'cc', 'c++')

    @unittest.skipIf(shutil.which('clang-format-14') is None, 'this distribution has no clang-format-14')
    def test_format(self):
        self.put('lib/qp/bad.c', SPDX + 'int  x ;\n')
        self.expect('format.py', 'lib/qp/bad.c')
        self.put('lib/qp/bad.c', SPDX + '/*\n *   a.h  one thing\n * b.h another thing\n */\nint x;\n')
        self.expect('format.py', 'joined: *   a.h  one thing')
        self.put('lib/qp/bad.c', SPDX + '/*\n *   a.h  one thing\n *   b.h  another\n */\nint x;\n')
        self.assertEqual(self.lint('format.py')[0], 0)

    def test_licence(self):
        self.put('lib/qp/bad.c', 'int x;\n')
        self.expect('spdx.py', 'lib/qp/bad.c')

    def test_sizes(self):
        body = '\tx++;\n' * 78
        self.put('lib/a.c', 'static int\nshort_enough(int a,\n\t int b)\n{\n' + body + '}\n')
        self.put('test/t.c', 'int x;\n' * 1200)
        self.assertEqual(self.lint('sizes.py')[0], 0)
        self.put('lib/a.c', 'static int\ntoo_long(int a,\n\t int b)\n{\n\tx++;\n' + body + '}\n')
        self.expect('sizes.py', 'lib/a.c:3: too_long has 81 lines')
        self.put('lib/a.c', 'int x;\n' * 1201)
        self.expect('sizes.py', 'lib/a.c: 1201 lines')

    def test_references_to_identifiers(self):
        self.put('lib/a.c', '/* a_function calls b_function; C_VALUE, ibv_post_send, GROUP_*. */\n'
                            'int a_function(int b_function) { return C_VALUE; }\n')
        self.assertNotIn('lib/a.c', self.lint('references.py')[1])
        self.put('lib/b.c', '/* See a_functon. */\n')
        self.expect('references.py', 'lib/b.c:1: nothing in the code is called a_functon')

    def test_phrases(self):
        self.put('doc/good.md', 'There is no device. It waits for everything and has a MAC of the device.\n')
        self.assertEqual(self.lint('phrases.py'), (0, 'phrases: ok\n'))
        self.put('lib/a.c', 'int i; /* counts\n * now and then */\n')
        self.expect('phrases.py', "lib/a.c:2: 'now and then': write sometimes, periodically")

    def test_scripts(self):
        self.put('test/bad.py', '# SPDX\ndef f(:\n')
        self.expect('scripts.py', 'test/bad.py')
        self.put('test/bad.py', '')
        self.put('demo', '#!/bin/bash\nif true; then\n')
        self.expect('scripts.py', 'demo')

    def test_imports_between_scripts(self):
        self.put('test/kit_py/tap.py', 'import os\nLEVEL = 1\nif LEVEL:\n    def case(): pass\n'
                                       'def late():\n    global made\n    made = 1\n')
        self.put('test/system/lib.py', 'from tap import case\nclass Daemon: pass\nfor kind in "ab": pass\n')
        good = ('import os, json.tool, lib, tap as t\nfrom os import nothing_here\nfrom lib import Daemon as D, case, kind\n'
                'def f(tap): return tap.gone\ndef g(): from tap import made\nlib.case, t.LEVEL, t.__name__, os.gone\n')
        self.put('test/system/test_a.py', good)
        self.assertEqual(self.lint('scripts.py'), (0, 'scripts: ok\n'))
        for line, word in (('from lib import Gone', 'test_a.py:7: test/system/lib.py has no Gone'),
                           ('def h():\n    from lib import case, gone', 'test_a.py:8: test/system/lib.py has no gone'),
                           ('def h(): return lib.gone()', 'test_a.py:7: test/system/lib.py has no gone'),
                           ('t.late.x, t.Gone', 'test_a.py:7: test/kit_py/tap.py has no Gone')):
            with self.subTest(line):
                self.put('test/system/test_a.py', good + line + '\n')
                self.expect('scripts.py', word)
        # A module of the file's own folder comes first; of others any may be meant.
        self.put('test/system/test_a.py', 'from page import here, there\n')
        self.put('test/kit_py/page.py', 'there = 1\n')
        self.expect('scripts.py', 'test/kit_py/page.py has no here')
        self.put('test/bench/page.py', 'here = 1\n')
        self.assertEqual(self.lint('scripts.py')[0], 0)
        self.put('test/system/page.py', 'here = 1\n')
        self.expect('scripts.py', 'test/system/page.py has no there')

    def test_exported_symbol(self):
        self.put('x.c', 'int leaked(void);\nint leaked(void) { return 1; }\n')
        library = self.root / 'x.so'
        subprocess.run(['cc', '-shared', '-o', library, self.root / 'x.c'], check=True)
        self.expect('symbols.py', 'leaked: exported', str(library))
        self.put('drivers/verbs/x.map', 'X_1 {\n global: leaked; gone;\n local: *;\n};\n')
        _, output = self.lint('symbols.py', str(library))
        self.assertNotIn('leaked', output)
        self.assertIn('gone: in the version map', output)

    def test_symbols_of_a_later_libc(self):
        self.put('x.c', '#include <sys/mount.h>\nint main(void) { return fsopen("tmpfs", 0); }\n')
        program = self.root / 'x'
        subprocess.run(['cc', '-o', program, self.root / 'x.c'], check=True)
        self.expect('symbols.py', 'fsopen needs GLIBC_2.36, later than 2.31', str(program))

    def test_references(self):
        # The other scripts refer to files of the real tree.
        for script in (self.root / 'test/lint').iterdir():
            if script.name not in ('references.py', 'tree.py'):
                script.unlink()
        self.put('doc/requirements.txt', '## 1. One\nAB-01 It is.\n')
        self.put('doc/good.md', '# Good\n\n## A part\n[x](#a-part), lib/{a,b}/x.[ch], engine.c, lib/a/, '
                 'rte_eal.h, cmd/NAME.sh, build/test/x.c, AB-01\n')
        self.put('lib/a/x.c', SPDX + '/* doc/good.md, \'A part\'; x.h */\nchar *s = "lib/gone.c";\n')
        self.put('lib/b/x.h', SPDX)
        self.put('lib/engine/engine.c', SPDX)
        self.put('test/unit/a/test_one.c', SPDX)
        self.put('test/fuzz/fuzz_a.c', SPDX)
        self.assertEqual(self.lint('references.py'), (0, 'references: ok\n'))
        for name, text, word in (
                ('doc/bad.md', 'See\ndoc/gone.md.', 'doc/bad.md:2: doc/gone.md does not exist'),
                ('doc/bad.md', 'lib/{a,gone}/', 'lib/gone/ does not exist'),
                ('doc/bad.md', 'lib/gone/*.c', 'lib/gone/*.c does not exist'),
                ('doc/bad.md', 'See gone.h.', 'gone.h does not exist'),
                ('doc/bad.md', '[x](gone.txt)', 'link to gone.txt'),
                ('doc/bad.md', '[x](good.md#gone)', 'no such heading'),
                ('doc/bad.md', "good.md, 'Gone'", "good.md has no section 'Gone'"),
                ('doc/bad.md', '`test_a_one`, `test_one`, `fuzz_a`, `test_b_one`', 'doc/bad.md:1: there is no test test_b_one'),
                ('doc/bad.md', 'As AB-02 says.', 'AB-02 is not in doc/requirements.txt'),
                ('lib/a/bad.c', SPDX + '\n/* seed 002 */\n', 'lib/a/bad.c:3: seed 002 is not'),
                ('lib/a/bad.c', SPDX + '// As issue 5 says.\n', 'issue 5 is not'),
                ('test/bad.py', '# SPDX\n# lib/gone.c\n', 'test/bad.py:2: lib/gone.c'),
                ('test/bad.py', '"""\n/work/facts says so."""\n', 'test/bad.py:2: /work/facts'),
                ('test/bad.sh', 'echo lib/none.c # lib/gone.c\n', 'test/bad.sh:1: lib/gone.c')):
            with self.subTest(word):
                self.put(name, text)
                self.expect('references.py', word)
                (self.root / name).unlink()

    ABI = (SPDX + 'struct uroce_a_req {\n\tuint32_t used%s;\n\tuint8_t spare[4];\n};\n'
           'UROCE_ABI_ASSERT(sizeof(struct uroce_a_req) == 8, "size");\n'
           'struct uroce_b_rep {\n\tunion {\n\t\tuint64_t x;\n\t\tuint32_t y[2];\n\t};\n\tstruct uroce_a_req in;\n};\n'
           'UROCE_ABI_ASSERT(sizeof(struct uroce_b_rep) == 16, "size");\n')
    OPS = (SPDX + '#define SPARE(type, ...) x\nSPARE(a_req, AT(a_req, spare));\nSPARE(b_rep, AT(b_rep, in.spare));\n'
           'OP(A, BODY(a_req), BODY(b_rep));\n')

    def put_abi(self, abi=ABI % '', ops=OPS, use='p->used = q->x + q->y[0] + q->in.used;'):
        self.put('include/uroce_abi/version.h', SPDX + '#include <stdint.h>\n#define UROCE_ABI_ASSERT(c, t)\n')
        self.put('include/uroce_abi/x.h', abi.replace(SPDX, SPDX + '#include "version.h"\n'))
        self.put('lib/ipc/ops.c', ops)
        self.put('lib/control/x.c', SPDX + use + '\n')

    def test_abi_with_every_field_used(self):
        self.put_abi()
        self.assertEqual(self.lint('abi_fields.py', 'cc'), (0, 'abi fields: ok\n'))

    def test_abi_field_that_nothing_uses(self):
        self.put_abi(abi=self.ABI % ', idle[3], *other')
        self.expect('abi_fields.py', 'include/uroce_abi/x.h:3: uroce_a_req: nothing uses idle')
        self.expect('abi_fields.py', 'nothing uses other')
        self.put_abi(use='/* p->used */ x = "p->x"; p->y = p->in;')
        self.expect('abi_fields.py', 'nothing uses used')
        self.expect('abi_fields.py', 'nothing uses x')

    def test_abi_structure_without_a_size(self):
        self.put_abi(abi=(self.ABI % '').replace('b_rep) ==', 'b_rep) >='))
        self.expect('abi_fields.py', 'uroce_b_rep: its size is not asserted')

    def test_abi_structure_with_hidden_padding(self):
        self.put_abi(abi=(self.ABI % '').replace('spare[4]', 'spare[3]'))
        self.assertEqual(self.lint('abi_fields.py')[0], 0)
        self.expect('abi_fields.py', 'include/uroce_abi/x.h:6: padding struct', 'cc')

    def test_spare_bytes_that_nobody_checks(self):
        for ops, word in ((self.OPS.replace('AT(b_rep, in.spare)', ''), 'SPARE(b_rep, ..): in.spare is missing'),
                          (self.OPS.replace('AT(a_req, spare)', 'AT(a_req, spare), AT(a_req, used)'),
                           'SPARE(a_req, ..): used is not a spare field'),
                          (self.OPS.replace('BODY(b_rep)', 'BODY(c_rep)'), 'no struct uroce_c_rep')):
            with self.subTest(word):
                self.put_abi(ops=ops)
                self.expect('abi_fields.py', word)
        self.put_abi(abi=(self.ABI % '').replace('uint8_t spare[4]', 'uint32_t x'))
        self.expect('abi_fields.py', 'uroce_a_req has no spare bytes')

    def library(self, **sources):
        """An archive with one object file for each name=C text."""
        for name, text in sources.items():
            self.put(f'{name}.c', text)
            subprocess.run(['cc', '-c', '-o', self.root / f'{name}.c.o', self.root / f'{name}.c'], check=True)
        archive = self.root / 'x.a'
        archive.unlink(missing_ok=True)
        subprocess.run(['ar', 'crs', archive, *(self.root / f'{name}.c.o' for name in sources)], check=True)
        return str(archive)

    def test_circle_of_calls(self):
        top = 'void a(void); void b(void); void a(void) { b(); }\n'
        middle = 'void b(void); void c(void); void b(void) { c(); }\n'
        library = self.library(a=top, b=middle, c='void a(void); void c(void); void c(void) { a(); }\n')
        self.expect('circles.py', 'circle of 3 files: a, b, c', library)
        self.expect('circles.py', 'c -> a: a', library)
        library = self.library(a='int n; ' + top, b='extern int n; void b(void); void b(void) { n = 1; }\n')
        self.expect('circles.py', 'b -> a: n', library)

    def test_calls_that_go_down(self):
        library = self.library(a='void a(void); void b(void (*f)(void)); void a(void) { b(a); }\n',
                               b='void b(void (*f)(void)); void b(void (*f)(void)) { f(); }\n')
        self.assertEqual(self.lint('circles.py', library)[0], 0)

    def test_circles_of_an_empty_library(self):
        self.expect('circles.py', 'no object file', self.library())

    def test_conformance(self):
        self.put('doc/requirements.txt', '## 1. One\nAB-01 It is.\nAB-02 It is not.\n')
        self.put('test/unit/t.c', 'REQUIREMENT("AB-01")\nSUITE_TEST(it_is)\n{\n}\n')
        # A mutation script names tests but is none.
        self.put('test/mutate/m.py', '# Requirements: AB-02\ndef test_never():\n')
        self.expect('conformance.py', 'out of date')
        self.assertEqual(self.lint('conformance.py', '--write')[0], 0)
        self.assertEqual(self.lint('conformance.py')[0], 0)
        document = (self.root / 'doc/conformance.md').read_text()
        self.assertIn('1 of 2 requirements', document)
        self.assertIn('| AB-01 | It is. | [t](../test/unit/t.c) |', document)
        self.assertIn('* **AB-01**\n  * [unit/t.c](../test/unit/t.c): it is\n', document)
        self.assertIn('| AB-02 | It is not. | none yet |', document)
        self.put('test/unit/t.c', 'REQUIREMENT("AB-01", "AB-03")\nstatic void\nit_is(void **s)\n')
        self.expect('conformance.py', 'AB-03')

    def test_conformance_finds_every_form(self):
        self.put('doc/requirements.txt', '## 1. One\nAB-01 It is.\nAB-02 It is not.\n')
        self.put('test/t.c', '/* Why. */\nREQUIREMENT("AB-01")\nMAKE(first, 1)\nMAKE(second, 2)\n\nOTHER(x, 3)\n\n'
                             'struct row rows[] = {\n\t/* Requirements: AB-02, AB-01 */\n\t{"a_row", 1},\n};\n')
        self.put('test/t.py', '# Requirements: AB-02\nwith lib.case("it is not: never"):\n')
        self.put('test/meson.build', "# Requirements: AB-01, AB-02\ntest('a_program', x)\n")
        self.lint('conformance.py', '--write')
        self.assertEqual(self.lint('conformance.py')[0], 0)
        document = (self.root / 'doc/conformance.md').read_text()
        self.assertIn('* **AB-01**\n  * [test/meson.build](../test/meson.build): a program\n'
                      '  * [test/t.c](../test/t.c): a row; first; second\n', document)
        self.assertIn('* **AB-02**\n  * [test/meson.build](../test/meson.build): a program\n'
                      '  * [test/t.c](../test/t.c): a row\n  * [test/t.py](../test/t.py): it is not\n', document)

    def test_conformance_annotations_that_name_nothing(self):
        self.put('doc/requirements.txt', '## 1. One\nAB-01 It is.\n')
        self.put('test/t.c', 'REQUIREMENT("AB-01")\nint x;\n')
        self.expect('conformance.py', 'an annotation of AB-01 stands above no test')
        self.put('test/t.c', 'static void test_AB_01_it_is(void **s)\n')
        self.expect('conformance.py', 'name requirements in an annotation')


if __name__ == '__main__':
    unittest.main(verbosity=2)
