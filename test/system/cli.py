# SPDX-License-Identifier: BSD-3-Clause
"""Runs urocectl for tests and validates its JSON against the schemas, which the build makes from app/uroced/fields.h.
They allow only members that they describe, so a member that comes from elsewhere fails."""
import functools
import json
import re
import subprocess

import jsonschema

import lib

SCHEMAS = lib.BUILD / "doc/schema"
OK, FAILURE, USAGE = 0, 1, 2


def run(daemon, *words, stdin=subprocess.DEVNULL, **more):
    """Runs `urocectl WORDS` on the daemon (None: without --socket); returns the completed process."""
    where = ["--socket", str(daemon.socket)] if daemon else []
    return subprocess.run([str(lib.UROCECTL), *where, *map(str, words)], text=True, capture_output=True, stdin=stdin,
                          timeout=60, check=False, **more)


def text(daemon, *words):
    """Returns its output; it must succeed and print nothing on standard error."""
    done = run(daemon, *words)
    assert (done.returncode, done.stderr) == (OK, ""), (words, done.returncode, done.stderr)
    return done.stdout


@functools.cache
def _store():
    return {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}


def schema(name):
    return _store()[f"{name}.json"]


def validate(name, value):
    """Fails with a sentence if value is not what the schema of that name describes."""
    one = schema(name)
    resolver = jsonschema.RefResolver(base_uri=one["$id"], referrer=one, store=_store())
    errors = list(jsonschema.Draft7Validator(one, resolver=resolver).iter_errors(value))
    assert not errors, f"{name}: " + "; ".join(
        f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in errors[:3])
    return value


def shown(daemon, name, *words):
    """Returns the JSON of a command, validated against schema NAME."""
    return validate(name, json.loads(text(daemon, "--json", *words)))


def topics():
    """The topics of `show`, from --help."""
    listed = re.search(r"^show WHAT.*\n((?:  .*\n)+)", text(None, "--help"), re.M)[1]
    return [line.split()[0] for line in listed.splitlines() if re.match(r"  [a-z_]+  ", line)]
