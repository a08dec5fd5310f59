"""Devices: where models are trained; which of them this machine has."""

from mmfl.devices.available import find_device, refuse_missing
from mmfl.devices.names import DeviceName, get_device_type

__all__ = ["DeviceName", "find_device", "get_device_type", "refuse_missing"]
