"""FAMILY: what ends a run when no allocation failed, and what that says of the other ranks of the run."""

from __future__ import annotations

from enum import Enum

from swapconf.words.phrases import mark


class Role(Enum):
    """How near to the cause, the nearest first: of ranks that ended differently the first in this order began.

    ``CAUSE``: it ends a rank by itself. ``LINK``: it may, or the process at the other end was gone before. ``WAITS``:
    others ended before, or hang. ``STOPPED``: somebody ended it on purpose. ``TOLD``: a launcher tells that another
    process ended. Source: Ascend FaultDiag (Mind Cluster 5.0), types of faults 106 to 116, and HCCL's order of events,
    CANN 9.0: error CQE, stuck, lost.
    """

    CAUSE = 0
    LINK = 1
    WAITS = 2
    STOPPED = 3
    TOLD = 4


class Family(Enum):
    """Read as: the run was ended by ..."""

    KERNEL = mark("an exception of a kernel on the device")
    KERNEL_TIMEOUT = mark("a kernel that did not come to its end")
    COPY = mark("a copy of memory on the device that failed")
    TASK = mark("a task on the device that failed")
    DEVICE_MEMORY = mark("a hardware fault of the device's memory")
    DEVICE_LOST = mark("a device that no longer answers")
    DEVICE_BUSY = mark("a device that an earlier process still holds")
    PORT = mark("a port that another process holds")
    LINK = mark("a link between devices that failed")
    WAIT = mark("a wait in vain for another rank in a communication")
    CONNECT = mark("a connection to another rank that was not made in time")
    COMM_SETTING = mark("a wrong setting of communication")
    CLUSTER = mark("another process of the run, which was lost")
    CRASH = mark("a crash of the process")
    KILLED = mark("signal 9 (killed)")
    HOST_MEMORY = mark("the host, which ran out of memory")
    COMPILE = mark("an operator or a graph that could not be compiled")
    DATA = mark("an error in the data set")
    DATA_LATE = mark("data that came too late")
    VALUES = mark("a loss or a gradient that is no number, or out of all bounds")
    DISK = mark("a full disk")
    PYTHON = mark("an exception of Python")
    STOPPED = mark("a signal from outside")
    EXITED = mark("an error of which only its launcher tells")
    GONE = mark("something that left its process no time for a word")

    @property
    def role(self) -> Role:
        return _ROLES.get(self, Role.CAUSE)

    @property
    def is_generic(self) -> bool:
        """It says nothing that a more exact message beside it does not say."""
        return self in _GENERIC

    @property
    def is_late(self) -> bool:
        """A process that ends for another reason often ends like this, too."""
        return self in _LATE

    @property
    def nearness(self) -> tuple[bool, bool, int]:
        """To the cause, of what one rank tells; the smallest is the nearest."""
        return self.is_generic, self.is_late, self.role.value

    @property
    def is_of_host_memory(self) -> bool:
        return self in (Family.HOST_MEMORY, Family.KILLED, Family.GONE)


_ROLES = {
    Family.LINK: Role.LINK,
    Family.WAIT: Role.WAITS,
    Family.CONNECT: Role.WAITS,
    Family.CLUSTER: Role.WAITS,
    Family.STOPPED: Role.STOPPED,
    Family.EXITED: Role.TOLD,
    Family.GONE: Role.TOLD,
}
_GENERIC = frozenset({Family.TASK, Family.PYTHON, Family.EXITED, Family.GONE})
_LATE = frozenset({Family.CRASH, Family.KILLED, Family.STOPPED, Family.EXITED, Family.GONE})
