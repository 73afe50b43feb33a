"""Values out of PDFs: `python examples/pdf_extraction.py [FILE.pdf ... -m SPEC]`.

The PDF goes to the model as it is, and the answer is a checked value. Without files, it writes a small invoice, and a
simulated Claude answers.
"""

import json
import sys
from dataclasses import dataclass
from datetime import date

import dragoman
from dragoman.testing import ClaudeSimulator


@dataclass
class Item:
    what: str
    price: float


@dataclass
class Invoice:
    number: str
    due: date
    items: list[Item]
    total: float


ANSWER = {
    "number": "2026-0417",
    "due": "2026-12-05",
    "items": [{"what": "mainsail", "price": 2840.0}, {"what": "delivery", "price": 95.0}],
    "total": 2935.0,
}


def write_invoice() -> bytes:
    """A PDF with one page of text."""
    text = b"BT /F1 12 Tf 50 750 Td (Invoice 2026-0417: mainsail 2840, delivery 95, total 2935, due 2026-12-05) Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body = b"%PDF-1.4\n"
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%b endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return body + (
        b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(body))
    )


def read_invoice(model: dragoman.Model, document: dragoman.Document) -> Invoice:
    invoice = model.extract(Invoice, ["Read this invoice.", document])
    if abs(sum(item.price for item in invoice.items) - invoice.total) > 0.01:
        raise SystemExit(f"invoice {invoice.number}: the items do not add up to the total; check it by hand")
    return invoice


def main() -> None:
    words = sys.argv[1:]
    spec = words[words.index("-m") + 1] if "-m" in words else "demo/any"
    files = [word for word in words if word.endswith(".pdf")]
    if files:
        model = dragoman.model(spec)
        documents = [dragoman.Document.from_path(file) for file in files]
    else:
        model = ClaudeSimulator(json.dumps(ANSWER)).model()
        documents = [dragoman.Document(data=write_invoice(), mime="application/pdf")]
    for document in documents:
        invoice = read_invoice(model, document)
        print(f"{invoice.number}, due {invoice.due:%d %B %Y}, {len(invoice.items)} items, total {invoice.total:.2f}")


if __name__ == "__main__":
    main()
