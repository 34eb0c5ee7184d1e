"""Outputs of the vendors' tools as their documentation and collectors show them."""

NVIDIA_STATE = "1980, 3201, 43, 512.30, 700.00, 100, 0x0000000000000004\n"
NVIDIA_PROCESSES = "4711, /usr/bin/miner --fast\n815, python\n"
HYGON_STATE = """{"card0": {"Device ID": "0x6320", "Temperature (Sensor junction) (C)": "40", "Temperature (Sensor mem) (C)": "30",
 "HCU use (%)": "10", "Voltage (mV)": "800"}}"""
XPU_STATE = "2400, 61, 70, 118.5, 200.0, 99.8, None\n"
XPU_PROCESSES = (
    """{"device_util_by_proc_list": [{"process_id": 4711, "process_name": "miner", "device_id": 0, "mem_size": 12}]}"""
)
