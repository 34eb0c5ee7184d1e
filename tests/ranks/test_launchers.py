"""Where a rank is and where it meets the others, by the variables of each launcher."""

from __future__ import annotations

import pytest

from stackproof.base.errors import Refusal
from stackproof.ranks.launchers import Placement, around, first_host, placement, rendezvous

TORCHRUN = {"TORCHELASTIC_RUN_ID": "job", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
TORCHRUN |= {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
SRUN = {
    "SLURM_PROCID": "4",
    "SLURM_NTASKS": "9",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
}
SRUN |= {"SLURM_STEP_TASKS_PER_NODE": "2(x2),1", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
SRUN |= {"SLURM_STEP_NODELIST": "node[03-05]"}
OPENMPI = {f"OMPI_COMM_WORLD_{name}": value for name, value in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "1"))}
OPENMPI |= {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-node0-4711@1"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
PLAIN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (TORCHRUN, Placement("torchrun", 5, 8, 1, 4, "job")),
        (SRUN, Placement("srun", 4, 5, 0, 1, "77.0")),
        (OPENMPI, Placement("mpirun (Open MPI)", 1, 2, 1, 2, "prterun-node0-4711@1")),
        (HYDRA, Placement("mpirun (Hydra: Intel MPI, MPICH)", 1, 2, 0, 1)),
        (PLAIN, Placement("the environment", 1, 2, 1, 2)),
        ({**SRUN, **TORCHRUN}, Placement("torchrun", 5, 8, 1, 4, "job")),
        ({**SRUN, **HYDRA}, Placement("mpirun (Hydra: Intel MPI, MPICH)", 1, 2, 0, 1)),
        ({**SRUN, "PMI_RANK": "4", "PMI_SIZE": "5"}, Placement("srun", 4, 5, 0, 1, "77.0")),
    ],
)
def test_each_launcher_tells_the_rank_its_place(environ: dict[str, str], place: Placement) -> None:
    assert place == placement(environ)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "no launcher started this process.*torchrun --nproc-per-node=N -m stackproof ranks"),
        ({"RANK": "0"}, "^the environment does not give WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, without"),
        ({**PLAIN, "RANK": "one"}, "RANK=one is not a whole number from 0 to 99999"),
        ({**PLAIN, "RANK": "-1"}, "RANK=-1 is not a whole number from 0 to 99999"),
        ({**PLAIN, "WORLD_SIZE": "999999999"}, "WORLD_SIZE=999999999 is not a whole number from 0 to 99999; "),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "2(x999999999)"}, "is not a list of numbers"),
        ({key: PLAIN[key] for key in ("RANK", "WORLD_SIZE")}, "not give LOCAL_RANK, LOCAL_WORLD_SIZE, .*: export what"),
        ({**PLAIN, "RANK": "2"}, "says rank 2 of 2, 1 of 2 on this host, which cannot be"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "2(y2)"}, "SLURM_STEP_TASKS_PER_NODE=2.y2. is not a list of numbers"),
    ],
)
def test_a_place_that_cannot_be_known_is_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        placement(environ)


@pytest.mark.parametrize(
    ("environ", "asked", "run", "address"),
    [
        (TORCHRUN, "", "", "env://"),
        (SRUN, "", "", ""),
        ({**SRUN, "SLURM_STEP_RESV_PORTS": "12003-12005"}, "", "", "tcp://node03:12003"),
        (SRUN, "file:///shared/meet/", "", "file:///shared/meet/stackproof-77.0.store"),
        (OPENMPI, "file:///shared", "", "file:///shared/stackproof-prterun-node0-4711-1.store"),
        (HYDRA, "file:///shared", "third try", "file:///shared/stackproof-third-try.store"),
        (HYDRA, "file:///shared", "", ""),
        (HYDRA, "tcp://node0:29500", "", "tcp://node0:29500"),
        (HYDRA, "node0:29500", "", ""),
        ({**HYDRA, "MASTER_ADDR": "node0", "MASTER_PORT": "auto"}, "", "", ""),
    ],
)
def test_ranks_meet_where_they_are_told_and_never_at_a_port_made_up(
    environ: dict[str, str], asked: str, run: str, address: str
) -> None:
    if address:
        assert address == rendezvous(placement(environ), environ, asked, run)
        return
    with pytest.raises(
        Refusal,
        match="^MASTER_PORT=auto is no port.*--rendezvous" if "MASTER_PORT" in environ else "--rendezvous|--run NAME",
    ):
        rendezvous(placement(environ), environ, asked, run)


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("node[03-05,9],gpu1", "node03"),
        ("node7", "node7"),
        ("a,b", "a"),
        ("rack[1,3]-ib", "rack1-ib"),
        ("gpu[001]", "gpu001"),
    ],
)
def test_slurms_lists_of_hosts_begin_with_one(hosts: str, first: str) -> None:
    assert first == first_host(hosts)


@pytest.mark.parametrize(
    ("hosts", "here", "spans", "refused"),
    [("2", "2", True, True), ("2", "1", False, True), ("2", "1", True, False), ("1", "1", False, False)],
)
def test_one_torchrun_a_host_may_be_started_by_mpirun(hosts: str, here: str, spans: bool, refused: bool) -> None:
    place = Placement("torchrun", 0, 8 if spans else 4, 0, 4, "job")
    outer = {**OPENMPI, "OMPI_COMM_WORLD_SIZE": hosts, "OMPI_COMM_WORLD_LOCAL_SIZE": here}
    assert bool(around(place, {**TORCHRUN, **outer})) is refused
