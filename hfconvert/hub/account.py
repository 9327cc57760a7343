"""Who a token belongs to, and what it may be used for, as far as the Hub tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hfconvert.hub.client import Client

_OPENS = ("discussion.write", "repo.write")
_MAKES = ("admin", "write", "contributor")


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its token. `role` is `read`, `write`, `fineGrained`, or what else the Hub may say.

    `orgs` holds the role in each organisation, `everywhere` and `scoped` the permissions of a fine-grained
    token: in all, and by repository, account or organisation.
    """

    name: str
    role: str = ""
    is_pro: bool = False
    orgs: Mapping[str, str] = field(default_factory=dict)
    everywhere: tuple[str, ...] = ()
    scoped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lacks_to_propose(self, repo: str) -> str:
        """Why this token surely opens no pull request there; empty where it may."""
        if self.role == "read":
            return "it is a read token"
        if self.role == "fineGrained" and not self._has(repo, _OPENS):
            return f"it is fine-grained, without discussion.write for {repo}"
        return ""

    def lacks_to_write(self, repo: str) -> str:
        """Why this token surely commits nothing there; empty where it may."""
        if self.role == "read":
            return "it is a read token"
        if self.role == "fineGrained" and not self._has(repo, ("repo.write",)):
            return f"it is fine-grained, without repo.write for {repo}"
        return ""

    def lacks_to_create(self, repo: str) -> str:
        """Why this token surely makes no repository of that name; empty where it may."""
        namespace = repo.partition("/")[0]
        if namespace != self.name and namespace not in self.orgs:
            return f"{self.name} is no member of {namespace}"
        if self.orgs.get(namespace, "write") not in (*_MAKES, ""):
            return f"the role of {self.name} in {namespace} is {self.orgs[namespace]}"
        if self.role == "read":
            return "it is a read token"
        if self.role == "fineGrained" and not self._has(namespace, ("repo.write",)):
            return f"it is fine-grained, without repo.write for {namespace}"
        return ""

    def _has(self, where: str, permissions: tuple[str, ...]) -> bool:
        names = (where, where.partition("/")[0])
        given = {*self.everywhere, *(one for name in names for one in self.scoped.get(name, ()))}
        return not given.isdisjoint(permissions)


def who(client: Client) -> Account:
    """The account that the client's token belongs to. UserError (exit 4) where the Hub does not say."""
    told = client.ask(client.about(act="sign in"), client.api.whoami)
    token = _mapping(_mapping(told, "auth"), "accessToken")
    fine = _mapping(token, "fineGrained")
    return Account(
        name=str(told.get("name", "")),
        role=str(token.get("role", "")),
        is_pro=bool(told.get("isPro")),
        orgs={
            str(org.get("name")): str(org.get("roleInOrg") or "") for org in _items(told, "orgs")
        },
        everywhere=_texts(fine.get("global")),
        scoped={
            str(_mapping(scope, "entity").get("name")): _texts(scope.get("permissions"))
            for scope in _items(fine, "scoped")
        },
    )


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _items(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return (
        [one for one in found if isinstance(one, Mapping)]
        if isinstance(found, (list, tuple))
        else []
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
