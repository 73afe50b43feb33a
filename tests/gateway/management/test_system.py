"""What the admin API tells about the running gateway."""

import asyncio
from pathlib import Path

from dragoman.gateway.reload import Reloader
from tests.support.gateway.admin import ROOT_CONFIG, Admin, running


def test_version_uptime_and_store_are_shown(tmp_path: Path) -> None:
    async def main() -> None:
        config = f'{ROOT_CONFIG}[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n[bodies]\nretention = 60\n'
        async with running(config) as admin:
            system = await admin.do("GET", "system")
            assert system["version"]
            assert 0 <= system["uptime"] < 60
            assert (system["store"], system["store_state"], system["body_retention"]) == ("sqlite", "ok", 60.0)
            assert (system["keys"], system["problems"]) == (1, [])

    asyncio.run(main())


def test_problems_say_what_to_repair(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "dragoman.toml"
        async with running(f"{ROOT_CONFIG}[providers.groq]\n") as admin:
            reloader = Reloader(admin.app, path, {})
            path.write_text(f"{ROOT_CONFIG}[gatway]\n", encoding="utf-8")
            reloader.check()
            await admin.do("POST", "teams", {"name": "research"})  # a change at run time keeps the problem
            rejected, missing, lost = await _problems(admin)
            assert "gatway" in rejected
            assert missing == "provider groq has no API key: set api_key in [providers.groq]"
            assert "are lost at a restart" in lost
            path.write_text(ROOT_CONFIG, encoding="utf-8")
            reloader.check()
            assert len(await _problems(admin)) == 1

    asyncio.run(main())


async def _problems(admin: Admin) -> list[str]:
    problems: list[str] = (await admin.do("GET", "system"))["problems"]
    return problems
