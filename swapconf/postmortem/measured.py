"""PROFILE -> MEASURED MEMORY: what filled a card at the peak, what lay outside of the pool, and what ran again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from swapconf.postmortem import operator_table
from swapconf.postmortem.cann_modules import module_name
from swapconf.postmortem.held import HeldAtPeak
from swapconf.profile import device_memory, leak_dump, measured_step
from swapconf.profile.device_memory import DeviceMemory
from swapconf.profile.known_files import FileKind
from swapconf.profile.leak_dump import Refused
from swapconf.profile.measured_step import Repeated
from swapconf.profile.memory_profile import Curve
from swapconf.profile.profile_files import ProfileFiles

READS = frozenset(
    {FileKind.OPERATORS, FileKind.RECORD, FileKind.DEVICE, FileKind.MODULES, FileKind.STATIC, FileKind.DUMP}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredMemory:
    """Of one profile.

    Attributes:
        held: At the peak; None where no file tells allocations.
        devices: What the pools and the driver counted.
        repeated: How often operators and their gradients ran; none where no kernels are told.
        refused: Allocations that the driver refused, in order.
    """

    files: ProfileFiles
    held: HeldAtPeak | None
    devices: tuple[DeviceMemory, ...]
    repeated: tuple[Repeated, ...]
    refused: tuple[Refused, ...] = ()

    def peak(self) -> int:
        """Bytes, of the fullest device, by whatever is told of it."""
        device = self.fullest
        told = [] if device is None else [device.process_bytes, device.reserved_bytes, device.used_bytes]
        held = [] if self.held is None else [self.held.peak_bytes]
        return next((size for size in (*told, *held) if size is not None), 0)

    @property
    def fullest(self) -> DeviceMemory | None:
        """The device that the allocations are told of, else the one that holds most."""
        same = [one for one in self.devices if self.held is not None and one.device == self.held.device]
        most = max(self.devices, key=lambda one: (one.reserved_bytes or 0, one.process_bytes or 0), default=None)
        return same[0] if same else most


def read(files: ProfileFiles) -> MeasuredMemory:
    """Raises SwapconfError."""
    if dumped := files.of(FileKind.DUMP):
        dump = leak_dump.read(*dumped)
        modules = [_named(curve) for curve in dump.modules if curve.component]
        return MeasuredMemory(
            files=files,
            held=operator_table.held(dumped[0], FileKind.DUMP, dump.pools) if len(dump.pools) else None,
            devices=device_memory.of_curves(dump.curves, modules),
            repeated=(),
            refused=dump.refused,
        )
    return MeasuredMemory(files=files, held=_held(files), devices=device_memory.read(files), repeated=repeated(files))


def repeated(files: ProfileFiles) -> tuple[Repeated, ...]:
    """None where no kernels are told. Raises SwapconfError."""
    steps = measured_step.of_profile(files)
    return measured_step.repeated(count for step in steps for count in step.counts)


def _held(files: ProfileFiles) -> HeldAtPeak | None:
    if operators := files.of(FileKind.OPERATORS):
        return operator_table.read(*operators)
    static = files.of(FileKind.STATIC)
    return operator_table.read_static(*static) if static else None


def _named(curve: Curve) -> Curve:
    """Older dumps tell the number of a module."""
    return replace(curve, component=module_name(curve.component.encode()) or curve.component)
