"""Bodies are stored only by opt-in, cut, without secrets, and deleted after their retention."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.gateway.auth.api_keys import new_key
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, Admin, running

VIEWER, VIEWER_HASH = new_key()
SECRET = "sk-proj-" + "a1B2" * 12


async def newest(admin: Admin) -> str:
    page = await admin.do("GET", "usage/requests?limit=1")
    id: str = page["requests"][0]["id"]
    return id


async def bodies_of(admin: Admin, **fields: Any) -> Any:
    assert (await admin.chat(ADMIN, **fields))[0] == 200
    return await admin.do("GET", f"usage/requests/{await newest(admin)}/bodies")


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_client_sent_and_got_is_stored(*, stream: bool) -> None:
    async def main() -> None:
        async with running(f"{ROOT_CONFIG}[bodies]\n") as admin:
            bodies = await bodies_of(admin, stream=stream, user=SECRET)
            assert json.loads(bodies["request"])["messages"] == [{"role": "user", "content": "hi"}]
            answer = json.loads(bodies["response"])
            assert answer["choices"][0]["message"]["content"]
            assert SECRET not in bodies["request"]
            assert bodies["request_bytes"] > 40

    asyncio.run(main())


def test_a_long_body_is_cut() -> None:
    async def main() -> None:
        async with running(f"{ROOT_CONFIG}[bodies]\nmax_bytes = 20\n") as admin:
            bodies = await bodies_of(admin)
            assert len(bodies["request"]) == len(bodies["response"]) == 20 < bodies["response_bytes"]

    asyncio.run(main())


def test_nothing_is_stored_without_the_table_or_for_other_keys() -> None:
    async def main(table: str, why: str) -> None:
        async with running(ROOT_CONFIG + table) as admin:
            await admin.chat(ADMIN)
            status, message = await admin.refused("GET", f"usage/requests/{await newest(admin)}/bodies")
            assert (status, why in message) == (404, True)

    asyncio.run(main("", "[bodies]"))
    asyncio.run(main('[bodies]\nkeys = ["alice"]\n', "deleted"))


def test_a_body_is_gone_after_its_retention() -> None:
    async def main() -> None:
        async with running(f"{ROOT_CONFIG}[bodies]\nretention = 0.05\n") as admin:
            await admin.chat(ADMIN)
            id = await newest(admin)
            await asyncio.sleep(0.06)  # the time itself is what is tested
            assert (await admin.refused("GET", f"usage/requests/{id}/bodies"))[0] == 404

    asyncio.run(main())


def test_only_admins_read_bodies() -> None:
    async def main() -> None:
        config = f'{ROOT_CONFIG}[keys.eye]\nhash = "{VIEWER_HASH}"\nrole = "viewer"\n[bodies]\n'
        async with running(config) as admin:
            await admin.chat(ADMIN)
            path = f"usage/requests/{await newest(admin)}/bodies"
            assert (await admin.refused("GET", path, key=VIEWER))[0] == 403

    asyncio.run(main())
