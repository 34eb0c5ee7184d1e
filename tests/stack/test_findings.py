"""Environment variables: what is likely a slip is said with its remedy, what is merely unknown or unusual is not."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stackproof import DATA
from stackproof.base.places import ROOT
from stackproof.base.toml import Table, read_toml
from stackproof.stack import findings, stacks, variables
from stackproof.stack.findings import EnvFinding, Inventory
from stackproof.stack.variables import Level


def only_finding(environ: dict[str, str], *families: str) -> EnvFinding:
    found = findings.examine(environ, families or None)
    assert len(found) == 1, [slip.sentence for slip in found]
    return found[0]


def quiet(environ: dict[str, str], *families: str) -> bool:
    return all(slip.level is Level.NOTE for slip in findings.examine(environ, families or None))


def test_a_dot_in_a_mask_has_both_meanings() -> None:
    slip = only_finding({"ZE_AFFINITY_MASK": "0.1"})
    assert slip.level is Level.WARNING
    assert "sub-device (tile) 1 of card 0" in slip.sentence
    assert "'0,1'" in slip.sentence
    assert slip.remedy.startswith("export ZE_AFFINITY_MASK=0,1 ")


def test_a_dot_under_flat_names_nothing() -> None:
    mask = {"ZE_AFFINITY_MASK": "0.1"}
    assert only_finding(mask | {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}).level is Level.PROBLEM
    assert only_finding(mask | {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}).level is Level.WARNING


@pytest.mark.parametrize("mask", ["0", "0,1", "0, 1", "0.0,0.1", "1.2.0"])
def test_masks_of_the_specification_are_right(mask: str) -> None:
    assert findings.examine({"ZE_AFFINITY_MASK": mask}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ZE_AFFINITY_MASK", "0，1"),
        ("HIP_VISIBLE_DEVICES", "'0,1'"),
        ("OMP_NUM_THREADS", "８"),
        ("FI_PROVIDER", '"tcp"'),
        ("NCCL_HOSTID", '"a"'),
        ("NCCL_TOPO_FILE", "/a：b"),
        ("NCCL_DEBUG", "INFO "),
    ],
)
def test_what_a_keyboard_or_a_file_adds(name: str, value: str) -> None:
    slip = only_finding({name: value})
    assert slip.sentence.startswith(f"{name}='{value}' has quotes or blanks round it, or full-width characters")
    assert slip.remedy.startswith(f"unset {name}")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("CCL_WORKER_COUNT", "two", Level.PROBLEM),
        ("CCL_WORKER_COUNT", "0", Level.PROBLEM),
        ("CCL_ATL_TRANSPORT", "tcp", Level.PROBLEM),
        ("CCL_LOG_LEVEL", "loud", Level.WARNING),
        ("CUDA_VISIBLE_DEVICES", "cuda:0", Level.PROBLEM),
        ("ZE_FLAT_DEVICE_HIERARCHY", "TILES", Level.PROBLEM),
        ("ONEAPI_DEVICE_SELECTOR", "gpu", Level.PROBLEM),
        ("NCCL_BUFFSIZE", "4M", Level.WARNING),
        ("NCCL_DEBUG", "verbose", Level.WARNING),
        ("NCCL_SOCKET_IFNAME", "eth0,../home/alice", Level.PROBLEM),
        ("I_MPI_FABRICS", "dapl", Level.WARNING),
        ("OMP_NUM_THREADS", "0", Level.PROBLEM),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments=True", Level.PROBLEM),
        ("TORCH_DISTRIBUTED_DEBUG", "1", Level.WARNING),
    ],
)
def test_a_value_outside_its_grammar(name: str, value: str, level: Level) -> None:
    slip = next(slip for slip in findings.examine({name: value}) if " is not " in slip.sentence)
    assert slip.variables == (name,)
    assert slip.sentence.startswith(f"{name}='{value}' is not ")
    assert slip.level is level
    assert slip.remedy.startswith(f"unset {name}   # or, for example: export {name}=") and "alice" not in slip.remedy
    assert slip.link.startswith("https://")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("CCL_WORKERS_COUNT", "CCL_WORKER_COUNT"),
        ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("RCCL_DEBUG", "NCCL_DEBUG"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("HIP_VISBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        ("ZE_AFINITY_MASK", "ZE_AFFINITY_MASK"),
        ("FI_PROVIDERS", "FI_PROVIDER"),
        ("I_MPI_FABRIC", "I_MPI_FABRICS"),
        ("TORCH_DISTRIBUTE_DEBUG", "TORCH_DISTRIBUTED_DEBUG"),
        ("PYTORCH_CUDA_ALOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        ("OMP_NUM_TREADS", "OMP_NUM_THREADS"),
    ],
)
def test_a_misspelt_name(typed: str, meant: str) -> None:
    slip = only_finding({typed: "1"})
    assert slip.level is Level.WARNING
    assert slip.remedy == f"export {meant}='1'; unset {typed}"


def test_a_misspelt_name_beside_the_right_one() -> None:
    slip = only_finding({"CCL_LOG_LEVELS": "debug", "CCL_LOG_LEVEL": "info"})
    assert "CCL_LOG_LEVEL is, which is also set, to 'info'" in slip.sentence
    assert slip.remedy == "unset CCL_LOG_LEVELS"


# What public launch scripts for Aurora, Frontier, EFA clusters and workstations export.
EVERYDAY = {
    "CCL_PROCESS_LAUNCHER": "pmix",
    "CCL_ATL_TRANSPORT": "mpi",
    "PMIX_RANK": "0",
    "CCL_OP_SYNC": "1",
    "CCL_KVS_MODE": "mpi",
    "CCL_KVS_CONNECTION_TIMEOUT": "3600",
    "CCL_WORKER_AFFINITY": "1,9,17,25",
    "CCL_ZE_CACHE_OPEN_IPC_HANDLES_THRESHOLD": "32768",
    "CCL_TOPO_P2P_ACCESS": "0",
    "CCL_BRAND_NEW": "1",
    "FI_CXI_RX_MATCH_MODE": "hybrid",
    "FI_CXI_DEFAULT_CQ_SIZE": "131072",
    "FI_MR_CACHE_MONITOR": "userfaultfd",
    "FI_PROVIDER": "tcp;ofi_rxm",
    "I_MPI_PIN": "0",
    "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
    "ZEX_NUMBER_OF_CCS": "0:4",
    "ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu",
    "SYCL_PI_LEVEL_ZERO_USE_IMMEDIATE_COMMANDLISTS": "1",
    "NCCL_DEBUG": "INFO",
    "NCCL_SOCKET_IFNAME": "^docker,lo",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
    "NCCL_NET": "AWS Libfabric",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_CROSS_NIC": "1",
    "HSA_FORCE_FINE_GRAIN_PCIE": "1",
    "OMP_NUM_THREADS": "8",
    "OMP_PLACES": "cores",
    "KMP_BLOCKTIME": "1",
    "MKL_NUM_THREADS": "8",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,garbage_collection_threshold:0.8",
    "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,MIG-1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "8192m",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "PATH": "/usr/bin",
    "HOME": "/root",
}


def test_everyday_settings_are_not_alarming() -> None:
    assert quiet(EVERYDAY)
    for name, value in EVERYDAY.items():
        if name not in ("CCL_ATL_TRANSPORT", "CCL_KVS_MODE"):
            assert quiet({name: value}), name


def test_a_variable_of_tomorrow_is_not_an_alarm() -> None:
    tomorrow = {"NCCL_QUANTUM_ENTANGLEMENT": "1", "ZE_TELEPORT": "2", "CUDA_BREW_COFFEE": "3"}
    assert quiet(tomorrow)
    assert findings.known({**tomorrow, "NCCL_DEBUG": "INFO", "NCCL_NET": "IB"}) == findings.Known(
        ("NCCL_DEBUG",), ("NCCL_NET",), ("CUDA_BREW_COFFEE", "NCCL_QUANTUM_ENTANGLEMENT", "ZE_TELEPORT")
    )


TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_RANK": "0"}
HYDRA = {"PMI_RANK": "0", "PMI_FD": "9", "MPI_LOCALRANKID": "0"}


def test_mpi_transport_without_mpirun() -> None:
    mpi = {"CCL_ATL_TRANSPORT": "mpi"}
    assert only_finding(mpi).level is Level.WARNING
    slip = only_finding(mpi | TORCHRUN)
    assert (slip.level, "hangs" in slip.sentence) == (Level.PROBLEM, True)
    assert findings.examine(mpi | HYDRA) == []
    assert findings.examine(mpi | {"PMIX_RANK": "0"}) == []


def test_torchrun_inside_mpirun() -> None:
    nested = TORCHRUN | HYDRA
    for transport in ({}, {"CCL_ATL_TRANSPORT": "mpi"}):
        worst = findings.examine(nested | transport, ["ccl", "torch"])[0]
        assert (worst.level, "dead PMI descriptor" in worst.sentence) == (Level.PROBLEM, True)
    assert only_finding(nested | {"CCL_ATL_TRANSPORT": "ofi"}, "ccl", "torch").level is Level.WARNING


def test_torchrun_below_slurm_is_right() -> None:
    environ = TORCHRUN | {"SLURM_PROCID": "0", "PMI_RANK": "0", "CCL_ATL_TRANSPORT": "ofi"}
    assert findings.examine(environ) == []


def test_a_launcher_called_none_needs_ranks() -> None:
    none = {"CCL_PROCESS_LAUNCHER": "none"}
    assert only_finding(none | {"CCL_LOCAL_RANK": "0"}).level is Level.PROBLEM
    assert findings.examine(none | {"CCL_LOCAL_RANK": "0", "CCL_LOCAL_SIZE": "2"}) == []


def test_leftovers_of_a_launcher() -> None:
    assert "would wait" in only_finding({"RANK": "0", "WORLD_SIZE": "2"}).sentence
    assert findings.examine({"RANK": "0", "WORLD_SIZE": "2"} | TORCHRUN) == []
    whole = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    assert findings.examine(whole) == []
    assert only_finding(whole | {"WORLD_SIZE": "2"}).level is Level.NOTE


def test_nothing_is_said_of_what_a_bad_value_does() -> None:
    for name, value in (
        ("HSA_OVERRIDE_GFX_VERSION", "gfx906"),
        ("ONEDNN_MAX_CPU_ISA", "AVX512"),
        ("NCCL_PROTO", "LL64"),
    ):
        assert name in only_finding({name: value}).variables


def test_the_stack_decides_what_is_idle() -> None:
    mask = {"CUDA_VISIBLE_DEVICES": "1"}
    for name, word in (("xpu", "ultralytics"), ("dcu", "HIP_VISIBLE_DEVICES")):
        assert word in only_finding(mask, *variables.relevant(stacks.load(name))).sentence
    assert findings.examine(mask, variables.relevant(stacks.load("cuda"))) == []
    assert findings.examine(mask) == []


def test_two_masks_that_differ() -> None:
    assert "differ" in only_finding({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}).sentence
    assert findings.examine({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}) == []


def test_rdma_asked_of_another_provider() -> None:
    asked = {"FI_EFA_USE_DEVICE_RDMA": "1"}
    assert "leaves efa out" in only_finding(asked | {"FI_PROVIDER": "tcp"}).sentence
    assert findings.examine(asked | {"FI_PROVIDER": "efa"}) == []


def test_leftover_workarounds() -> None:
    assert only_finding({"NCCL_P2P_DISABLE": "1"}).level is Level.WARNING
    assert findings.examine({"NCCL_DEBUG": "INFO"}) == []


def test_only_the_families_asked_for() -> None:
    environ = {"CCL_WORKER_COUNT": "two", "NCCL_DEBUG": "loud"}
    assert [slip.family for slip in findings.examine(environ, ["nccl"])] == ["nccl"]


def test_the_worst_comes_first() -> None:
    environ = {"CCL_ALLREDUCE": "ring", "NCCL_DEBGU": "INFO", "CUDA_VISIBLE_DEVICES": "x"}
    found = findings.examine(environ)
    assert [slip.level for slip in found] == [Level.PROBLEM, Level.WARNING, Level.NOTE]


def test_a_value_with_braces_is_text() -> None:
    found = findings.examine({"CUDA_VISIBLE_DEVICES": "{0}{x!r}", "HIP_VISIBLE_DEVICES": "{"}, ["hip"])
    assert any("{0}{x!r}" in slip.sentence for slip in found)


def test_the_environment_is_not_changed() -> None:
    before = dict(os.environ)
    findings.examine(os.environ)
    assert dict(os.environ) == before


def test_any_environment_is_answered() -> None:
    draw = random.Random(0)
    names = [*EVERYDAY, "ZE_AFFINITY_MASK", "CCL_WORKER_COUNT", "RANK", "NCLL_DEBUG", "X", "CCL_"]
    letters = "0123456789.,:;^={}[]()*%$#@!\\'\"\n\t AÄß，：。０Ａ\u3000\u202e\U0001f600"
    for _ in range(300):
        chosen = draw.sample(names, k=draw.randrange(6))
        environ = {name: "".join(draw.choices(letters, k=draw.randrange(12))) for name in chosen}
        for slip in findings.examine(environ):
            assert slip.sentence
            assert slip.remedy
            assert set(slip.variables) <= set(environ)


def test_what_changes_results_is_told() -> None:
    assert findings.with_settings(
        "it is wrong", {"NVIDIA_TF32_OVERRIDE": "0", "NCCL_DEBUG": "INFO", "MKL_CBWR": "AVX2"}
    ) == ("it is wrong (set, and changes results: NVIDIA_TF32_OVERRIDE=0, MKL_CBWR=AVX2)")
    assert (
        findings.with_settings("it is wrong", {"NCCL_DEBUG": "INFO", "ONEDNN_DEFAULT_FPMATH_MODE": "STRICT"})
        == "it is wrong"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("NVIDIA_TF32_OVERRIDE", "1"),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),
        ("ONEDNN_DEFAULT_FPMATH_MODE", "BF16"),
        ("DNNL_DEFAULT_FPMATH_MODE", "any"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("MKL_CBWR", "COMPATIBLE"),
        ("ONEDNN_MAX_CPU_ISA", "AVX2"),
        ("HIPBLASLT_ALLOW_TF32", "1"),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0"),
        ("PYTORCH_TUNABLEOP_ENABLED", "1"),
        ("ATEN_CPU_CAPABILITY", "avx2"),
        ("CUBLAS_EMULATE_SINGLE_PRECISION", "1"),
        ("CUBLAS_EMULATE_DOUBLE_PRECISION", "1"),
        ("IPEX_FP32_MATH_MODE", "BF32"),
    ],
)
def test_what_changes_results_is_known(name: str, value: str) -> None:
    assert any(name in slip.variables for slip in findings.examine({name: value}))
    assert f"{name}={value}" in findings.with_settings("", {name: value})


def test_a_secret_is_not_shown() -> None:
    environ = {"HF_TOKEN": "'hf_secret'", "HUGGING_FACE_HUB_TOKEN": "x", "HOME_API_KEY": " y"}
    slip = only_finding(environ)
    assert slip.variables == ("HF_TOKEN",)
    assert "quotes" in slip.sentence
    assert "secret" not in slip.sentence + slip.remedy
    assert findings.known(environ) == findings.Known((), (), ())
    assert findings.known({"STACKPROOF_PROJECT": ""}) == findings.Known((), (), ())  # ours to ourselves


@pytest.mark.parametrize(("name", "meant"), [("HF_API_TOKEN", "HF_TOKEN"), ("WANDB_KEY", "WANDB_API_KEY")])
def test_the_name_of_a_token_that_nobody_reads(name: str, meant: str) -> None:
    slip = only_finding({name: "very-secret"})
    assert slip.remedy == f'export {meant}="${name}"; unset {name}'
    assert "very-secret" not in slip.sentence


SETTINGS = Path(__file__).parent / "settings"
FOLDERS = ("/usr/local/cuda", "/opt/rocm", "/etc/nccl", "/tmp", "/data", "/data/hf")
FILES = ("/etc/nccl/topo.xml",)
HOST = Inventory(
    interfaces=("lo", "eth0", "eth1", "ib0", "docker0"),
    adapters={"mlx5_0": ("1",), "mlx5_1": ("1",)},
    cards={"cuda": 8, "xpu": 2, "hip": 2},
    cores=16,
    is_file=FILES.__contains__,
    is_folder=FOLDERS.__contains__,
)


@dataclass(frozen=True)
class Setting:
    """Variables, of which kind their slip is, and a part of the remedy that is right; empty where nothing is wrong."""

    kind: str
    set: Mapping[str, str]
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {' '.join(f'{name}={value!r}' for name, value in self.set.items())}"


def listed(name: str, key: str) -> tuple[Setting, ...]:
    with Table.load(SETTINGS / name) as table:
        return table.rows(key, Setting)


SLIPS, HELD, CORRECT = (
    listed("slips.toml", "slip"),
    listed("slips_held.toml", "slip"),
    listed("correct.toml", "setting"),
)


def flagged(row: Setting) -> bool:
    found = findings.examine(row.set, host=HOST)
    return any(slip.level not in (Level.OK, Level.NOTE) and row.remedy in slip.remedy for slip in found)


def test_the_lists_are_long_enough() -> None:
    assert len(SLIPS) + len(HELD) >= 150
    assert len(HELD) >= 50
    assert len(CORRECT) >= 60


@pytest.mark.parametrize("row", SLIPS, ids=str)
def test_a_slip_is_flagged(row: Setting) -> None:
    assert flagged(row), [
        (slip.level.value, slip.sentence, slip.remedy) for slip in findings.examine(row.set, host=HOST)
    ]


def test_slips_that_were_held_back() -> None:
    missed = [str(row) for row in HELD if not flagged(row)]
    assert len(missed) <= 0.05 * len(HELD), missed


@pytest.mark.parametrize("row", CORRECT, ids=str)
def test_what_is_right_is_left_in_peace(row: Setting) -> None:
    for host in (HOST, None):
        found: list[Any] = [slip for slip in findings.examine(row.set, host=host) if slip.level is not Level.NOTE]
        assert found == []


def test_dots_for_commas_between_three_cards() -> None:
    host = dataclasses.replace(HOST, cards={"xpu": 3})
    (slip,) = findings.examine({"ZE_AFFINITY_MASK": "0.1.2"}, host=host)
    assert (slip.level, slip.remedy.split("   ")[0]) == (Level.WARNING, "export ZE_AFFINITY_MASK=0,1,2")
    assert findings.examine({"ZE_AFFINITY_MASK": "0,1,2"}, host=host) == []


def test_every_fault_of_the_simulated_cards_may_be_planted_by_name() -> None:
    known = read_toml(ROOT / "fixtures" / "simulated" / "torch_sim" / "switches.toml")
    grammar = variables.families()["sim"].variables["SIM_FAULTS"].grammar
    assert grammar is not None and set(grammar.choices) == known.keys()
    texts = {"op", "value", "phase", "dtype", "shape", "layout"}
    assert {*grammar.keys, *texts} == {key for row in known.values() for key in row["parameters"]}
    planted = {"SIM_FAULTS": "scale:op=addmm,phase=backward;hang:rank=1,after=20"}
    assert not findings.examine(planted, {"sim"})
    for faults in ("scael:op=addmm", "scale:nosuchkey=1", "hang:rank=abc", "scale:op"):
        (wrong,) = findings.examine({"SIM_FAULTS": faults}, {"sim"})
        assert (wrong.level, faults in wrong.sentence) == (Level.PROBLEM, True)
    drilled = read_toml(DATA / "faults.toml")["fault"]
    for faults in filter(None, (row["inject"].get("faults") for row in drilled)):
        assert not findings.examine({"SIM_FAULTS": faults}, {"sim"}), faults
