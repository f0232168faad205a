#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks references in documents and comments. A path of the tree must name a file or folder. A link's target and
anchor must exist, and a section quoted after a document's name must be one of its headings. No text may refer to a
document outside of the repository: name the section of the specification or the requirement instead. A
requirement's id must be in doc/requirements.txt. A test or fuzzer named in a document must exist: `test_net_neigh` is
test/unit/net/test_neigh.c. A function, type, field or constant named in a C comment must exist in the code.
"""
import ast
import io
import pathlib
import re
import tokenize

import tree

FOLDERS = 'app|config|doc|drivers|include|lib|scripts|test'
ROOTS = ('', 'doc/', 'include/', 'lib/', 'drivers/', 'app/', 'test/', 'test/system/')  # a path may begin at each
PATH = re.compile(r'(?<![\w/.$~}*<>-])((?:' + FOLDERS + r')/(?:[\w./*,{}-]|\[\w+\])*(?:[\w/*}]|\[\w+\])|'
                  r'(?:[\w*-]+/)*[\w*-]+\.(?:[ch]|md|py|sh)\b(?!\.\w))')
LINK = re.compile(r'\]\(([^)\s]+)\)')
REQUIREMENT = re.compile(r'\b([A-Z]+)-\d\d\b')
SECTION = re.compile(r"([\w/-]+\.md),\s+'([^']+)'")
TEST = re.compile(r'`((?:test|fuzz)_\w+)`')
OUTSIDE = re.compile(r'\b(wire-facts|[Ss]eed 0\d\d|issue \d+)\b|/work/\w+|\bshared/\w+')

# Build outputs, files of other projects, and placeholders such as NAME.sh.
FOREIGN = re.compile(r'dpdk-telemetry\.py|build[\w-]*/|rte_|rdma/|infiniband/|linux/|sys/|include/uapi/|tests/run_tests\.py|'
                     r'(.*/)?[A-Z]+\.[chps]')
# Words with an underscore in C comments. A word followed by * is a pattern.
IDENTIFIER = re.compile(r'(?<![\w/.#-])([A-Za-z]\w*_\w+)(?![\w*])')
# External identifiers: libibverbs and librdmacm, the kernel and libc, DPDK, rdma-core's build, and terms of the
# specification.
OTHERS = re.compile(r'(ibv|IBV|rdma|RDMA|CAP|AF|SCM|MAP|SO|IBVERBS|rte|RTE|virtio|XDP)_\w+|[LRPQ]_Keys?|'
                    r'anon_vma|mmap_lock|sched_attr|sd_notify|ib_port_cap_flags|NO_SPREAD|SINGLE_THREADED|'
                    r'LAST_WQE_REACHED|(CREATE|DESTROY|MIGRATE)_ID|BIND_IP|RESOLVE_(IP|ADDR|ROUTE)|QUERY_ROUTE|INIT_QP_ATTR|'
                    r'(JOIN|JOIN_IP|LEAVE)_MCAST|SET_OPTION|IB_PATH')
EXAMPLES = ('test/lint/test_lint.py', 'test/lint/references.py')  # their paths are examples


def comments(name):
    """(line, text) of the prose of a file: all of a document, the comments of a source file."""
    text = tree.text(name)
    if name.endswith('.py'):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
                yield node.body[0].lineno, node.body[0].value.value
    elif name.endswith(('.c', '.h')):
        for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|(/\*.*?\*/|//[^\n]*)', text, flags=re.S):
            if match[1]:
                yield text.count('\n', 0, match.start()) + 1, match[1]
    elif name.endswith(('.sh', 'meson.build', '.conf')):
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.search(r'(?:^|\s)#.*', line):
                yield number, match[0]
    else:
        yield 1, text


def expand(path):
    """Expands a pattern like lib/{qp,wire}/x.[ch] into paths."""
    match = re.search(r'\{([^{}]*)\}', path)
    if not match:
        return [path]
    return [full for word in match[1].split(',')
            for full in expand(path[:match.start()] + word + path[match.end():])]


def exists(path, name, known):
    """Whether path, written in the file name, leads to a file or folder of the tree."""
    folder = name.rpartition('/')[0]
    for root in (*ROOTS, folder + '/'):
        if (tree.ROOT / root / path).exists():
            return True
        # A pattern, or the common stem of a .c and a .h file.
        if any(found for suffix in ('', '.[ch]')
               for found in (tree.ROOT / root).glob(path.rstrip('/') + suffix)):
            return True
    # A path may be cut at the front, such as engine.c or requester/send.c.
    return any(pathlib.PurePath(other).match(path) for other in known)


def headings(text):
    return [re.sub('`', '', line.lstrip('#').strip()) for line in text.splitlines() if line.startswith('#')]


def anchor(heading):
    return re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')


def document(path, name):
    """The document named by path, written in the file name; None if there is none."""
    for root in ('', 'doc/', name.rpartition('/')[0] + '/'):
        if (tree.ROOT / root / path).is_file():
            return tree.text(str((tree.ROOT / root / path).resolve().relative_to(tree.ROOT)))
    return None


def requirements():
    """Ids of doc/requirements.txt."""
    path = tree.ROOT / 'doc/requirements.txt'
    return set(re.findall(r'^[A-Z]+-\d\d', path.read_text(encoding='utf-8'), re.M)) if path.exists() else set()


def identifiers():
    """Every word of the tree's code: C without comments, scripts as a whole, and file names."""
    words = set()
    for name in tree.files('.c', '.h'):
        # Keep strings: they hold names of options and of device attributes.
        words.update(re.findall(r'\w+', re.sub(r'/\*.*?\*/', ' ', tree.text(name), flags=re.S)))
    for name in tree.files('.py', '.sh', 'meson.build', '.map', '.txt', '.conf'):
        if name not in EXAMPLES:
            words.update(re.findall(r'\w+', tree.text(name)))
    for name in tree.files(''):
        words.update(re.split(r'[/.]', name))
    return words


def tests(known):
    """Names of tests and fuzzers: of their files, also with the folder's name between test_ and the rest."""
    for name in known:
        path = pathlib.PurePath(name)
        if path.parts[0] == 'test' and path.suffix in ('.c', '.py') and path.stem.startswith(('test_', 'fuzz_')):
            yield path.stem
            yield path.stem.replace('test_', f'test_{path.parent.name}_', 1)


def problems_of(name, known, ids, words):
    for start, text in comments(name):
        def where(match):
            return f'{name}:{start + text.count(chr(10), 0, match.start())}'

        for match in OUTSIDE.finditer(text):
            yield f'{where(match)}: {match[0]} is not in the repository'
        for match in PATH.finditer(text):
            for path in expand(match[1]):
                if not FOREIGN.match(path) and not exists(path, name, known):
                    yield f'{where(match)}: {path} does not exist'
        for match in REQUIREMENT.finditer(text):
            if match[0] not in ids and match[1] in {number[:-3] for number in ids}:
                yield f'{where(match)}: {match[0]} is not in doc/requirements.txt'
        for match in SECTION.finditer(text):
            found = document(match[1], name)
            if found is not None and match[2] not in headings(found):
                yield f"{where(match)}: {match[1]} has no section '{match[2]}'"
        if name.endswith(('.c', '.h')):
            for match in IDENTIFIER.finditer(text):
                if match[1] not in words and not OTHERS.fullmatch(match[1]):
                    yield f'{where(match)}: nothing in the code is called {match[1]}'
        if not name.endswith('.md'):
            continue
        for match in TEST.finditer(text):
            if match[1] not in tests(known):
                yield f'{where(match)}: there is no test {match[1]}'
        for match in LINK.finditer(text):
            target, _, fragment = match[1].partition('#')
            if '://' in target:
                continue
            path = (tree.ROOT / name).parent / target if target else tree.ROOT / name
            if not path.exists():
                yield f'{where(match)}: link to {match[1]}: no such file'
            elif fragment and fragment not in map(anchor, headings(path.read_text(encoding='utf-8'))):
                yield f'{where(match)}: link to {match[1]}: no such heading'


def main():
    known, ids, words = tree.files(''), requirements(), identifiers()
    names = [name for name in tree.files('.md', '.c', '.h', '.py', '.sh', 'meson.build', '.conf')
             if name not in EXAMPLES]
    tree.finish('references', [p for name in names for p in problems_of(name, known, ids, words)])


main()
