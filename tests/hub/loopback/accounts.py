"""Who asks, and what that account may do with what token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

TokenRole = Literal["read", "write", "fineGrained"]
OrgRole = Literal["read", "contributor", "write", "admin"]
Right = Literal["read", "write", "discuss"]

# What each permission of a fine-grained token allows, by the names that whoami gives them.
PERMISSIONS: Mapping[str, tuple[Right, ...]] = {
    "repo.content.read": ("read",),
    "repo.write": ("read", "write", "discuss"),
    "discussion.write": ("discuss",),
}


class Owned(Protocol):
    """A repository, as far as rights go."""

    @property
    def id(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def private(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class User:
    """An account and its roles in organisations."""

    name: str
    orgs: Mapping[str, OrgRole] = field(default_factory=dict)

    def rights(self, repo: Owned) -> frozenset[Right]:
        """What the account may do with a repository, whatever its token."""
        if repo.namespace == self.name:
            return frozenset({"read", "write", "discuss"})
        role = self.orgs.get(repo.namespace)
        if role in ("write", "admin"):
            return frozenset({"read", "write", "discuss"})
        if role is not None or not repo.private:
            return frozenset({"read", "discuss"})
        return frozenset()


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an account. `scoped` holds permissions by repository, account or organisation."""

    text: str
    user: User
    role: TokenRole
    scoped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    everywhere: tuple[str, ...] = ()

    def rights(self, repo: Owned) -> frozenset[Right]:
        """What may be done with a repository: what the account may, as far as the token allows it."""
        rights = self.user.rights(repo)
        if self.role == "write":
            return rights
        allowed: set[Right] = {"read"} if self.role == "read" or not repo.private else set()
        if self.role == "fineGrained":
            names = (*self.everywhere, *self.scoped.get(repo.id, ()))
            for name in (*names, *self.scoped.get(repo.namespace, ())):
                allowed.update(PERMISSIONS.get(name, ()))
        return rights & allowed

    def may_create(self, namespace: str) -> bool:
        """Whether repositories may be made in a namespace."""
        own = namespace == self.user.name
        if not own and self.user.orgs.get(namespace) not in ("contributor", "write", "admin"):
            return False
        scoped = "repo.write" in self.scoped.get(namespace, ())
        return self.role == "write" or (self.role == "fineGrained" and scoped)

    def whoami(self) -> dict[str, Any]:
        """The answer to `GET /api/whoami-v2`."""
        access: dict[str, Any] = {"displayName": "loopback", "role": self.role}
        if self.role == "fineGrained":
            access["fineGrained"] = {
                "canReadGatedRepos": True,
                "global": list(self.everywhere),
                "scoped": [_scope(name, given) for name, given in self.scoped.items()],
            }
        orgs = [
            {"type": "org", "name": name, "fullname": name, "roleInOrg": role}
            for name, role in self.user.orgs.items()
        ]
        return {
            "type": "user",
            "id": f"id-{self.user.name}",
            "name": self.user.name,
            "fullname": self.user.name,
            "isPro": False,
            "canPay": False,
            "orgs": orgs,
            "auth": {"type": "access_token", "accessToken": access},
        }


def _scope(name: str, permissions: tuple[str, ...]) -> dict[str, Any]:
    kind = "model" if "/" in name else "user"
    entity = {"_id": f"id-{name}", "type": kind, "name": name}
    return {"entity": entity, "permissions": list(permissions)}
