"""Two processes share a model with an adapter by FSDP2 over gloo and save it as transformers' Trainer does.

python sharded_lora.py BASE FOLDER STORE    FOLDER gets the adapter, and what each process held of it
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import recipes.torch_setup  # noqa: F401  before transformers

import torch  # isort: skip
from accelerate import Accelerator  # isort: skip
from accelerate.utils import DistributedType  # isort: skip
from omegaconf import OmegaConf  # isort: skip
from peft import LoraConfig, get_peft_model  # isort: skip
from torch.distributed.fsdp import fully_shard  # isort: skip

from recipes.backbone import load_model  # isort: skip
from recipes.run_dir import IDLE  # isort: skip

MODEL = OmegaConf.create({"device": "cpu", "dtype": "float32", "attention": "sdpa"})
PROCESSES = 2


def adapted(base: str):
    """The model with an adapter that does something, the same in every process."""
    torch.manual_seed(3)
    targets, exclude = IDLE["model"]["lora_targets"], IDLE["model"]["lora_exclude"]
    settings = LoraConfig(r=4, lora_alpha=16, target_modules=targets, exclude_modules=exclude)
    model = get_peft_model(load_model(base, MODEL), settings)
    for name, tensor in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(tensor, std=0.05)
    return model


def work(rank: int, base: str, folder: str, store: str) -> None:
    files = torch.distributed.FileStore(store, PROCESSES)
    torch.distributed.init_process_group("gloo", store=files, rank=rank, world_size=PROCESSES)
    model = adapted(base)
    for layer in model.base_model.model.model.language_model.layers:
        fully_shard(layer)
    fully_shard(model)
    shared = [tensor for tensor in model.parameters() if tensor.requires_grad]
    held = sum(tensor.to_local().numel() for tensor in shared)
    Path(folder, f"held_{rank}").write_text(f"{held} {sum(tensor.numel() for tensor in shared)}")
    # accelerate takes FSDP for GPUs alone; its gathering does not care.
    accelerator = SimpleNamespace(distributed_type=DistributedType.FSDP, is_fsdp2=True)
    state = Accelerator.get_state_dict(accelerator, model)
    if rank == 0:
        model.save_pretrained(folder, state_dict=state)
    torch.distributed.barrier()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=tuple(sys.argv[1:]), nprocs=PROCESSES)
