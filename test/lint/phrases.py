#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Finds words and phrases that comments, messages and documents must not use, with the usual term for each.
doc/glossary.md, 'Words to drop', lists terms of the field that replace uroce's own words.
"""
import re

import tree

# Regular expression -> what to write instead.
PHRASES = {
    r'now and then': 'sometimes, periodically',
    r'for ever\b': 'forever',
    r'lets? go of|(?:has|have|had) let go': 'release',
    r'some(?:body|one)\b': 'the client, the peer, another thread',
    r'whoever': 'the thread, the user or the program that',
    r'thereupon': 'then',
    r'under way\b': 'outstanding, in flight, running',
    r'knows nothing': 'is independent of',
    r'tell(?:ing|s)? (?:the|its|their) progress': 'report progress',
    r'(?:is|are|was|were) told\b(?! apart)': 'gets, receives, is notified',
    r'turned? away': 'refused',
    r'surplus argument': 'unexpected argument',
    r'(?<!there )is no (?:name|address|option|filter|group|device|number)\b': 'is not a',
    r'(?:a|an|one|the same) [\w-]+ of (?:its|their) own\b': 'a separate',
}
SKIP = ('test/lint/', 'test/pcaps/', 'CHANGELOG.md', 'doc/conformance.md', 'doc/requirements.txt', 'doc/glossary.md',
        'LICENSE', 'debian/copyright')
ALL = re.compile('|'.join(rf'(?P<p{number}>\b(?:{phrase}))' for number, phrase in enumerate(PHRASES)), re.I)


def check(name):
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        for match in ALL.finditer(line):
            instead = list(PHRASES.values())[int(match.lastgroup[1:])]
            yield f"{name}:{number}: '{match[0].strip()}': write {instead}"


def main():
    names = [n for n in tree.files('.c', '.h', '.py', '.sh', '.md', '.scd', '.conf', '.build') if not n.startswith(SKIP)]
    tree.finish('phrases', [problem for name in names for problem in check(name)])


main()
