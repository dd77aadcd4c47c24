"""Device, precision and random seeds of training."""

from __future__ import annotations

import os

import torch

from suite.checkpoint.model import find_device


def local_device(name: str = "auto") -> torch.device:
    """The device to train on.

    Args:
        name: "auto" (this rank's CUDA device if there is one, else the CPU), or a device's name.

    Raises:
        ConfigError: the device cannot be used on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name != "cuda":
        return find_device(name)
    place = find_device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    torch.cuda.set_device(place)
    return place


def use_bfloat16(precision: str, device: torch.device) -> bool:
    """Whether matrix products are taken in bfloat16; "auto" asks whether the device has instructions for them."""
    return has_bfloat16(device) if precision == "auto" else precision == "bfloat16"


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device is known to multiply bfloat16 faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def emulates_bfloat16(device: torch.device) -> bool:
    """Whether the device has no instructions for bfloat16, so that it takes longer than float32 does."""
    return device.type in ("cpu", "cuda") and not has_bfloat16(device)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of one step on one rank; near numbers give far states (splitmix64's finaliser)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    torch.manual_seed((mixed ^ mixed >> 31) % 2**63)
