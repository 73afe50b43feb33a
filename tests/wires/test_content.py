"""No content of a user is lost without an error or a notice, whatever the protocol that it was said in."""

import pytest

from dragoman import wires
from tests.support.batch import grouped
from tests.support.wires.content import CARRIED, LOST, WORDS, Member, members, missing_words, outcome, says_nothing

ALL = [member for member in members() if not says_nothing(member)]
GROUPS = {
    f"{source}-{wire}": {
        f"{member.name} ({number})": {"member": member, "wire": wire}
        for number, member in enumerate(ALL)
        if member.wire == source
    }
    for source in dict.fromkeys(member.wire for member in ALL)
    for wire in wires.NAMES
}


@pytest.mark.no_cover
@grouped(GROUPS)
def test_each_member_of_the_unions_is_carried_converted_or_refused(member: Member, wire: str) -> None:
    found = outcome(member, wire)
    assert found.word != LOST, (member.item, found)
    assert found.word in WORDS
    assert missing_words(member, found) == [], (member.item, found)


@pytest.mark.parametrize("source", dict.fromkeys(member.wire for member in ALL))
def test_each_member_is_carried_to_its_own_wire(source: str) -> None:
    lost = [member for member in ALL if member.wire == source and outcome(member, source).word != CARRIED]
    assert [member.name for member in lost if member.item.get("type") not in _INCOMPLETE] == []


_INCOMPLETE = ("reasoning", "function_call_output")
"""What needs another item before or after it."""


def test_a_member_that_is_lost_is_found() -> None:
    member = next(member for member in ALL if member.name == "SearchResultBlock")
    assert outcome(member._replace(body=member.plain), "ollama").word == LOST
    refused = outcome(next(member for member in ALL if member.name == "ContainerUploadBlock"), "ollama")
    assert refused.word == "refused"
