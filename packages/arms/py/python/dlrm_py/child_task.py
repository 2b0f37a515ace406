"""What a process that the supervisor starts is told."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from dlrm_py.options import ServerOptions
from dlrm_py.ring import RingShape


@dataclass(frozen=True)
class RingFiles:
    """Descriptors of one ring: its memory and the bell of each slot."""

    memory: int
    slot_bells: list[int]


@dataclass(frozen=True)
class ChildTask:
    """What a child is to do; descriptors are inherited."""

    role: Literal["owner", "frontend"]
    #: For logs: ``owner``, ``frontend 0`` ….
    name: str
    options: ServerOptions
    shape: RingShape
    #: A frontend has its own, the owner has all.
    rings: list[RingFiles]
    owner_bell: int
    control: int

    def descriptors(self) -> list[int]:
        bells = [bell for ring in self.rings for bell in ring.slot_bells]
        return [self.control, self.owner_bell, *bells, *(ring.memory for ring in self.rings)]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildTask:
        fields = json.loads(text)
        return cls(
            role=fields["role"],
            name=fields["name"],
            options=ServerOptions(**fields["options"]),
            shape=RingShape(**fields["shape"]),
            rings=[RingFiles(**ring) for ring in fields["rings"]],
            owner_bell=fields["owner_bell"],
            control=fields["control"],
        )
