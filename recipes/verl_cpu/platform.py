"""What verl asks of a device, answered for the CPU (`VERL_PLATFORM=cpu`).

Collectives run over gloo. Ray gives a worker its place by a logical "GPU" (`ray_init.num_gpus=1`), as
verl's placement code knows no other resource that needs no hardware.
"""

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import psutil
import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry


class _DeviceModule(types.ModuleType):
    """`torch.cpu` with the calls that verl makes on `torch.cuda` besides; no device memory to report."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def empty_cache(self) -> None: ...
    def ipc_collect(self) -> None: ...
    def set_device(self, device: Any) -> None: ...
    def reset_peak_memory_stats(self, device: Any = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def memory_allocated(self, device: Any = None) -> int:
        return 0

    def memory_reserved(self, device: Any = None) -> int:
        return 0

    def max_memory_allocated(self, device: Any = None) -> int:
        return 0

    def max_memory_reserved(self, device: Any = None) -> int:
        return 0

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    def get_device_name(self, device: Any = None) -> str:
        return "CPU"


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One device, the CPU; nothing to allocate, synchronise or profile."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _DeviceModule("recipes.verl_cpu.platform.device")

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...
    def synchronize(self, device_index: int | None = None) -> None: ...
    def set_allocator_settings(self, settings: str) -> None: ...
    def empty_cache(self) -> None: ...
    def profiler_start(self) -> None: ...
    def profiler_stop(self) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


_init_process_group = torch.distributed.init_process_group


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    """torch's, which refuses the backend as verl spells it: the CPU's twice, as host and as device."""
    if backend == "cpu:gloo,cpu:gloo":
        backend = "cpu:gloo"
    _init_process_group(backend, *args, **kwargs)


torch.distributed.init_process_group = init_process_group

if not torch.accelerator.is_available():
    # verl offloads its reference model with pinned memory, which needs an accelerator to pin for.
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self
