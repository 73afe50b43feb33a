"""An environment that notes what is read from it, so that a cached target is made again if a variable changes."""

from collections.abc import Iterator, Mapping

from dragoman.types.checks import is_mapping, wrong_value


class ReadEnv(Mapping[str, str]):
    """An environment that notes which variables were read, and what they were."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.values_read: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        value = self.values_read[name] = self._env.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)

    def __bool__(self) -> bool:
        return True  # also if it is empty: it may not stay so


def check_env(env: object, /) -> None:
    """Refuse what is not a dict of environment variables."""
    if not is_mapping(env) or not all(isinstance(name, str) for name in env):
        raise wrong_value("env", "a dict of environment variables", env)
