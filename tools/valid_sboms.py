"""Hold every stack's bill of materials against CycloneDX's own schema: `python -m tools.valid_sboms`, which `nox -s lint` runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from stackproof.stack import licences, lockfile, sbom, stacks


def complaints(text: str) -> Iterator[str]:
    """Yield what the schema says against a document; nothing where it is valid."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if found is not None:
        yield str(found)


def main() -> int:
    """Look at all stacks, and at one document that is broken on purpose."""
    known, wrong = licences.known(), []
    for name in stacks.names():
        stack = stacks.load(name)
        text = json.dumps(sbom.bill(stack, lockfile.read(stack.lock), known))
        wrong += [f"{name}: {said}" for said in complaints(text)]
        if not list(complaints(text.replace('"SHA-256"', '"SHA-0"'))):
            wrong.append(f"{name}: an algorithm that does not exist was not seen")
    print("\n".join(wrong) or f"the bills of {len(stacks.names())} stacks are valid CycloneDX")  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
