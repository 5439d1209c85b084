#!/usr/bin/env python3
"""Prints what is in a standalone archive, as SPDX 2.3 (spdx.github.io/spdx-spec/v2.3, JSON): spdx.py ARCHIVE.tar.gz

The archive's share/sarus/components.tsv names the software of others and its versions, share/sarus/licenses has their licences. The time is
$SOURCE_DATE_EPOCH, so that the same archive gives the same bytes.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import tarfile


def members(archive):
    """{path below the archive's directory: bytes} of what describes it."""
    with tarfile.open(archive) as file:
        found = {member.name.partition("/")[2]: member for member in file if member.isfile()}
        wanted = [path for path in found if re.match(r"share/sarus/(components\.tsv$|licenses/)|share/doc/sarus/LICENSE", path)]
        return {path: file.extractfile(found[path]).read().decode(errors="replace") for path in wanted}


def identifier(name):
    return re.sub(r"[^A-Za-z0-9.-]", "-", name)


def component(name, version):
    return {
        "SPDXID": "SPDXRef-" + identifier(name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "LicenseRef-" + identifier(name),
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": f"pkg:deb/debian/{name}@{version}".replace("+", "%2B")}
        ],
    }


def document(archive):
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    version = re.match(r"sarus-(\d[\d.]*\d)-", archive.name).group(1)
    texts = members(archive)
    rows = [line.split("\t") for line in texts["share/sarus/components.tsv"].splitlines()]
    sarus = {
        "SPDXID": "SPDXRef-sarus",
        "name": "sarus",
        "versionInfo": version,
        "packageFileName": archive.name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "BSD-3-Clause",
        "copyrightText": "NOASSERTION",
    }
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    contains = [{"spdxElementId": "SPDXRef-sarus", "relationshipType": "CONTAINS", "relatedSpdxElement": "SPDXRef-" + identifier(name)} for name, _ in rows]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": archive.name.removesuffix(".tar.gz"),
        "documentNamespace": f"https://spdx.org/spdxdocs/sarus-{version}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Organization: the authors of Sarus"]},
        "packages": [sarus] + [component(name, version) for name, version in rows],
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-sarus"}] + contains,
        "hasExtractedLicensingInfos": [
            {"licenseId": "LicenseRef-" + identifier(name), "name": f"licences of {name}", "extractedText": texts["share/sarus/licenses/" + name]}
            for name, _ in rows
        ],
    }


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("Usage: scripts/lib/spdx.py ARCHIVE.tar.gz")
    try:
        print(json.dumps(document(pathlib.Path(sys.argv[1])), indent=1, sort_keys=True))
    except (OSError, tarfile.TarError, KeyError, AttributeError) as error:
        sys.exit(f"{sys.argv[1]} is no standalone archive: {error}")
