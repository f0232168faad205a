#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Makes the JSON schemas of urocectl's output, and the manual page of its fields, from the rows of
app/uroced/fields.h and app/urocectl/fields.h.
fields.py DESCRIBE.H DEPFILE NAME.json.. uroce-fields.7.scd -- PREPROCESSOR..
"""
import json
import pathlib
import re
import subprocess
import sys

SHOWN = ('device', 'port', 'gid', 'neigh', 'client', 'quota', 'pd', 'qp', 'cq', 'srq', 'mr', 'mw', 'ah', 'cm', 'worker',
         'stats', 'drops', 'cm_stats', 'daemon', 'config', 'trace')
COMMANDS = ('impair', 'capture', 'doctor', 'set')
COUNTERS = ('stats', 'drops', 'cm_stats')
UNITS = ('UINT', 'INT', 'UINT_NULL', 'REAL')
WITH_UNIT = {'ns': 'nanoseconds', 'us': 'microseconds', 'ms': 'milliseconds'}
HEX = {'type': 'string', 'pattern': '^0x[0-9a-f]+$'}
SIMPLE = {
    'UINT': {'type': 'integer', 'minimum': 0}, 'INT': {'type': 'integer'}, 'REAL': {'type': 'number', 'minimum': 0},
    'UINT_NULL': {'type': ['integer', 'null'], 'minimum': 0}, 'BOOL': {'type': 'boolean'}, 'TEXT': {'type': 'string'},
    'TEXT_NULL': {'type': ['string', 'null']}, 'TEXTS': {'type': 'array', 'items': {'type': 'string'}}, 'HEX': HEX,
    'HEX_NULL': {**HEX, 'type': ['string', 'null']}, 'TEXT_UINT': {'type': ['string', 'integer']},
}
SINCE = 'watch only: nanoseconds since the report before'


def rows_of(text):
    """The rows that the preprocessor leaves: [kind, argument ..]."""
    for row in re.findall(r'@@(.*?)@@', text, re.S):
        words = [[]]
        for string, comma, token in re.findall(r'("(?:[^"\\]|\\.)*")|(,)|([\w|]+)', row):
            if comma:
                words.append([])
            else:
                words[-1].append(json.loads(string) if string else token)
        yield [''.join(word) for word in words]


class Table:
    """The fields of a topic or group, in order."""
    def __init__(self):
        self.fields, self.open, self.ifs = [], [], 0

    def add(self, kind, name, who, *rest):
        unit, *rest = rest if kind in UNITS else ('', *rest)
        *more, doc = rest
        # Fields with the same key are all there, or none of them.
        self.fields.append({'kind': kind, 'name': name, 'who': who, 'unit': unit, 'doc': doc,
                            'more': more[0] if more else '', 'key': (*self.open, who)})

    def schema(self, refs):
        """Object with these members and no others. refs: prefix of references to groups."""
        members, groups = {}, {}
        for field in self.fields:
            kind, more, doc = field['kind'], field['more'], field['doc']
            if kind in SIMPLE:
                one = dict(SIMPLE[kind])
            elif kind == 'WORD':
                one = {'enum': more.split('|')}
            elif kind == 'WORD_NULL':
                one = {'enum': [*more.split('|'), None]}
            elif kind == 'PART':
                one = {'$ref': refs + more}
            elif kind == 'LIST':
                one = {'type': 'array', 'items': {'$ref': refs + more}}
            else:
                sys.exit(f'fields.py: {field["name"]}: unknown kind {kind}')
            unit = WITH_UNIT.get(field['unit'], field['unit'])
            members[field['name']] = {**one, 'description': f'{doc} ({unit})' if unit else doc}
            if kind != 'PART':
                groups.setdefault(field['key'], []).append(field['name'])
        out = {'type': 'object', 'properties': members, 'required': groups.pop(('ALL',), []), 'additionalProperties': False}
        sets = {word: [] for key in groups for word in key[-1].split('|') if word.startswith('SET_')}
        for key in [key for key in groups if key[-1].startswith('SET_')]:
            for word in key[-1].split('|'):
                sets[word] += groups[key]
            del groups[key]
        if sets:
            out['oneOf'] = [{'required': names} for names in sets.values()]
        needs = {names[0]: names[1:] for names in groups.values() if len(names) > 1}
        needs.update({name: names[:1] for names in groups.values() for name in names[1:]})
        if needs:
            out['dependencies'] = needs
        return out


def read(text):
    tables, rates, now = {}, {}, None
    for kind, *args in rows_of(text):
        if kind in ('TOPIC', 'GROUP'):
            now = tables[re.sub('^rdma_(res_)?', lambda m: m[0].replace('_', '-'), args[0])] = Table()
        elif kind == 'RATES':
            now = rates[args[0]] = []
        elif kind == 'RATE':
            now.append(args)
        elif kind == 'IF':
            now.ifs += 1
            now.open.append(now.ifs)
        elif kind == 'FI':
            now.open.pop()
        elif kind not in ('END', 'RATES_END'):
            now.add(kind, *args)
    rates['client'] = rates['qp']  # the sums of its queue pairs
    for field in tables['trace'].fields:  # has only rows of the asking user
        field['who'] = 'ALL'
        field['key'] = (*field['key'][:-1], 'ALL')
    return tables, rates


def rates_of(what, tables, rates):
    """What watch and top add to a row."""
    if what in COUNTERS:
        members = {f['name']: {'type': 'integer', 'description': f['doc']} for f in tables[f'{what}_counters'].fields}
    else:
        members = {'busy_percent': {'type': 'number', 'minimum': 0, 'maximum': 100,
                                    'description': 'share of the time in which it did work'}} if what == 'worker' else {}
        members.update({name: {'type': 'integer', 'description': doc} for name, doc in rates[what]})
    return {'oneOf': [{'type': 'null'}, {'type': 'object', 'properties': members, 'required': list(members),
                                         'additionalProperties': False}],
            'description': 'watch and top only: growth a second since the report before; null: the object is new'}


def counters_table(what):
    table = Table()
    table.add('TEXT', 'device', 'ALL', 'verbs device; all: the whole daemon')
    table.add('PART', 'total', 'ALL', f'{what}_counters', 'sums')
    if what != 'cm_stats':
        table.add('LIST', 'workers', 'ALL', f'{what}_counters',
                  'of each worker; the total also has those of the control thread')
    return table


def schema(name, title, body):
    return {'$schema': 'http://json-schema.org/draft-07/schema#', '$id': f'{name}.json', 'title': title, **body}


def listed(key, row, definitions, watch):
    """An object whose member key is an array of rows."""
    members = {key: {'type': 'array', 'items': {'$ref': '#/definitions/row'}, 'description': 'one object for each row of the table'}}
    if watch:
        members['interval_ns'] = {'type': 'integer', 'minimum': 1, 'description': SINCE}
    return {'type': 'object', 'properties': members, 'required': [key], 'additionalProperties': False,
            'definitions': {'row': row, **definitions}}


def parts_of(table, tables):
    """The schemas of the groups that a table refers to."""
    return {f['more']: tables[f['more']].schema('#/definitions/') for f in table.fields if f['kind'] in ('PART', 'LIST')}


def schemas(tables, rates):
    out = {}
    for what in SHOWN:
        table = tables[what]
        row, name = table.schema('#/definitions/'), 'trace' if what == 'trace' else f'show-{what}'
        if what in COUNTERS:
            row['required'].append('total')
        if what in COUNTERS or what in rates:
            row['properties']['rates'] = rates_of(what, tables, rates)
        title = 'urocectl trace, urocectl show trace' if what == 'trace' else f'urocectl show {what}'
        out[name] = schema(name, title, listed(what, row, parts_of(table, tables), True))
    for what in COMMANDS:
        table, title = tables[what], 'urocectl set, addr, pkey, cc, probe' if what == 'set' else f'urocectl {what}'
        out[what] = schema(what, title, listed(what, table.schema('#/definitions/'), parts_of(table, tables), False))
    for name in [name for name in tables if name.startswith('rdma-')]:
        title = 'urocectl ' + ' '.join(name.split('-')[:2] + (['show', name.split('-')[2]] if name.count('-') > 1 else []))
        out[name] = schema(name, title, {'type': 'array', 'items': tables[name].schema('')})
    members = {'interval_ns': {'type': 'integer', 'minimum': 1, 'description': 'nanoseconds since the look before'}}
    for what in ('worker', 'client', 'qp'):
        members[what] = {'type': 'array', 'items': {'$ref': f'show-{what}.json#/definitions/row'},
                         'description': f'as urocectl show {what}, with rates'}
    out['top'] = schema('top', 'urocectl top: an object for each report', {
        'type': 'object', 'properties': members, 'required': list(members), 'additionalProperties': False})
    return out


PAGE = """uroce-fields(7)

# NAME

uroce-fields - what *urocectl --json* prints: the members of rows, with units

# DESCRIPTION

For each *urocectl*(8) command, the members of a row of its JSON, in order. _/usr/share/uroce/schema_ has the same as JSON
schemas. *show* without *--json* has the same names in its headings.

Members that are marked *own* are shown to the owner of the object, to root and to the daemon's user. *null* is a possible
value where the text names it. Members that are marked *sometimes* are absent unless they apply. Counters have the same
names in _/sys/class/infiniband/DEVICE/ports/1/hw\\_counters_, in DPDK's telemetry and, as _uroce\\_NAME\\_total_, in the
metrics for Prometheus.
"""
END_OF_PAGE = """
# SEE ALSO

*urocectl*(8), *uroced*(8), *uroce*(7)
"""


def escaped(text):
    return re.sub(r'([_*\\])', r'\\\1', text)


def page_rows(table, tables, inside=''):
    """Lines of scdoc: a member each; those of a part after it."""
    for field in table.fields:
        unit = f' ({field["unit"]})' if field['unit'] else ''
        marks = ['own'] * (field['who'] == 'OWN') + ['sometimes'] * (len(field['key']) > 1 or field['kind'] == 'PART')
        words = f': {field["more"].replace("|", ", ")}' if field['kind'].startswith('WORD') else ''
        yield f'*{escaped(inside + field["name"])}*{unit}{" [" + ", ".join(marks) + "]" if marks else ""}++'
        yield escaped(field['doc'] + words) + '\n'
        if field['more'] in tables and not field['more'].endswith('_counters'):
            yield from page_rows(tables[field['more']], tables, f'{inside}{field["name"]}.')


def page(tables, rates):
    """The manual page, for scdoc."""
    lines = [PAGE]
    for name, table in tables.items():
        what = {'stats_counters': 'show stats', 'drops_counters': 'show drops', 'cm_stats_counters': 'show cm_stats'}.get(name)
        if what is None and (name in COUNTERS or name not in SHOWN + COMMANDS):
            continue
        what = what or (f'show {name}' if name in SHOWN else name)
        lines += [f'# {escaped(what).upper()}\n', *page_rows(table, tables)]
        if name in rates:
            lines.append('With *watch* and *top*, growth a second:\n')
            lines += [f'*rates.{escaped(rate)}*++\n{escaped(doc)}\n' for rate, doc in rates[name]]
    return '\n'.join([*lines, END_OF_PAGE])


def main():
    describe, depfile, *rest = sys.argv[1:]
    outs, preprocess = rest[:rest.index('--')], rest[rest.index('--') + 1:]
    text = subprocess.run([*preprocess, '-DFIELDS_DESCRIBE', '-E', '-P', '-MMD', '-MF', depfile, '-MT', pathlib.Path(outs[0]).name,
                           describe], check=True, capture_output=True, text=True).stdout
    tables, rates = read(text)
    tables.update({what: counters_table(what) for what in COUNTERS})
    made = schemas(tables, rates)
    pathlib.Path(outs[-1]).write_text(page(tables, rates), encoding='utf-8')
    wanted = {pathlib.Path(out).stem: pathlib.Path(out) for out in outs[:-1]}
    if made.keys() != wanted.keys():
        sys.exit(f'fields.py: schemas {sorted(made.keys() ^ wanted.keys())}: list them in meson.build')
    for name, out in wanted.items():
        out.write_text(json.dumps(made[name], indent=1) + '\n', encoding='utf-8')


main()
