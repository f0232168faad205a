#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Makes a manual page: page.py SCDOC PAGE FILE.. writes it to stdout. In the page, a line
  @OPTIONS NAME@  is replaced by the options of the program NAME, as its --help describes them,
  @HELP NAME@     by its whole --help,
  @FILE NAME@     by the contents of the file NAME.
Programs and files are among FILE.., by the last part of their paths.
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r'  (?:(-[a-z]), )?(--[a-z-]+)(?: ([A-Z]\S*))? *(?:  (.*))?$')


def plain(text):
    """text with scdoc's markup characters escaped."""
    return re.sub(r'([\\*_#|])', r'\\\1', text)


def help_of(program):
    run = subprocess.run([program, '--help'], stdout=subprocess.PIPE, check=True, text=True)
    return run.stdout.expandtabs().rstrip('\n')


def options(text):
    """The options in a help text, as scdoc paragraphs: (option, argument, words of the description)."""
    found = []
    for line in text.split('\n'):
        start = OPTION.match(line)
        if start:
            names = '*, *'.join(filter(None, (start[1], start[2])))
            found.append((names, start[3], (start[4] or '').split()))
        elif found and line.startswith(' ' * 16):
            found[-1][2].extend(line.split())
        elif line.strip() and not line.startswith('  -'):
            found.append((None, None, []))  # other text ends a description
    for name, argument, words in found:
        if name:
            shown = f'*{name}*' + (f' _{argument}_' if argument else '')
            yield f'{shown}\n\t{plain(" ".join(words))}\n'


def verbatim(text):
    return '```\n' + text + '\n```'


def main():
    scdoc, page, *files = sys.argv[1:]
    by_name = {os.path.basename(path): path for path in files}

    def replace(match):
        path = by_name[match[2]]
        if match[1] == 'FILE':
            with open(path, encoding='utf-8') as file:
                return verbatim(file.read().rstrip('\n'))
        text = help_of(path)
        return verbatim(text) if match[1] == 'HELP' else '\n'.join(options(text))

    with open(page, encoding='utf-8') as file:
        text = re.sub(r'^@(OPTIONS|HELP|FILE) (\S+)@$', replace, file.read(), flags=re.M)
    run = subprocess.run([scdoc], input=text, stdout=subprocess.PIPE, check=True, text=True)
    sys.stdout.write(run.stdout)


if __name__ == '__main__':
    main()
