"""What each replica of each framework is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.dialects.frameworks import Address, Implementation, Team, hostfile, replica_environment, team_environment
from gangline.dialects.frameworks.team import in_ranges
from gangline.dialects.native import job_from_plain
from gangline.model import JobSpec, ReplicaId, RoleName
from gangline.runtime import current


def make_job(framework: str = "none", roles: dict[str, object] | None = None, **spec: object) -> JobSpec:
    body = {"framework": framework, "command": ["train"], "roles": roles or {"worker": 2}, **spec}
    return job_from_plain({"metadata": {"name": "mnist"}, "spec": body})


def addresses(job: JobSpec) -> dict[ReplicaId, Address]:
    """Every replica at 10.0.<role>.<index>, on its role's port."""
    return {
        ReplicaId(role.name, index): (f"10.0.{position}.{index}", role.port)
        for position, role in enumerate(job.roles)
        for index in range(role.replicas)
    }


def environment(job: JobSpec, replica: str, **options: str) -> dict[str, str]:
    return replica_environment(job, ReplicaId.parse(replica), addresses=addresses(job), **options)


class TestOwnVariables:
    job = make_job(roles={"ps": 1, "worker": 2, "helper": 1, "chief": 1, "evaluator": 1})

    @pytest.mark.parametrize(
        ("replica", "rank"),
        [("chief-0", 0), ("worker-0", 1), ("worker-1", 2), ("helper-0", 3), ("ps-0", 4), ("evaluator-0", 5)],
    )
    def test_ranks_put_the_lead_first_and_service_roles_last(self, replica: str, rank: int) -> None:
        env = environment(self.job, replica)
        role, index = replica.split("-")
        assert (env["GANGLINE_ROLE"], env["GANGLINE_INDEX"], env["GANGLINE_RANK"]) == (role, index, str(rank))

    def test_the_world_is_the_training_replicas(self) -> None:
        assert environment(self.job, "ps-0")["GANGLINE_WORLD_SIZE"] == "4"

    def test_every_replica_knows_all_addresses_and_its_own(self) -> None:
        env = environment(self.job, "worker-1")
        assert json.loads(env["GANGLINE_CLUSTER"]) == {
            "ps": ["10.0.0.0:2222"],
            "worker": ["10.0.1.0:2222", "10.0.1.1:2222"],
            "helper": ["10.0.2.0:2222"],
            "chief": ["10.0.3.0:2222"],
            "evaluator": ["10.0.4.0:2222"],
        }
        assert env["GANGLINE_ADDRESS"] == "10.0.1.1:2222"

    def test_the_names_of_a_large_role_come_in_ranges(self) -> None:
        job = make_job(roles={"ps": 2, "worker": 40})
        named = {replica: (f"{replica}.mnist.team.svc", port) for replica, (_, port) in addresses(job).items()}
        env = replica_environment(job, ReplicaId(RoleName("worker"), 1), addresses=named)
        assert json.loads(env["GANGLINE_CLUSTER"]) == {
            "ps": ["ps-0.mnist.team.svc:2222", "ps-1.mnist.team.svc:2222"],
            "worker": ["worker-[0-39].mnist.team.svc:2222"],
        }

    @given(
        st.lists(
            st.one_of(
                st.builds("{}-{}.job-1.team.svc:2222".format, st.sampled_from(["a", "b-0"]), st.integers(0, 12)),
                st.sampled_from(
                    ["127.0.0.1:2", "127.0.0.2:2", "[::1]:22", "[fe80::1-2]:3", "host:22", "w-01.x:2", "w-1"]
                ),
            )
        )
    )
    def test_what_is_written_in_ranges_is_read_as_it_was(self, endpoints: list[str]) -> None:
        written = in_ranges(endpoints)
        assert current({"GANGLINE_CLUSTER": json.dumps({"worker": written})}).peers("worker") == tuple(endpoints)
        assert len(written) <= len(endpoints)

    def test_only_present_replicas_are_in_the_cluster(self) -> None:
        job = make_job(roles={"worker": {"replicas": 3, "min": 1}})
        present = {replica: where for replica, where in addresses(job).items() if replica.index < 2}
        env = replica_environment(job, ReplicaId(RoleName("worker"), 1), addresses=present)
        assert len(json.loads(env["GANGLINE_CLUSTER"])["worker"]) == 2
        assert env["GANGLINE_WORLD_SIZE"] == "2"

    def test_an_ipv6_host_stands_in_brackets(self) -> None:
        job = make_job(roles={"worker": 1})
        replica = ReplicaId(RoleName("worker"), 0)
        assert replica_environment(job, replica, addresses={replica: ("fd00::1", 80)})["GANGLINE_ADDRESS"] == (
            "[fd00::1]:80"
        )

    def test_the_user_has_the_last_word_and_a_role_more_than_the_job(self) -> None:
        job = make_job("pytorch", {"worker": {"env": {"B": "role"}}}, env={"A": "job", "B": "job", "MASTER_PORT": "1"})
        env = environment(job, "worker-0")
        assert (env["A"], env["B"], env["MASTER_PORT"]) == ("job", "role", "1")


class TestTensorFlow:
    job = make_job("tensorflow", {"chief": 1, "ps": 1, "worker": 2, "evaluator": 1})

    @pytest.mark.parametrize("replica", ["chief-0", "ps-0", "worker-1", "evaluator-0"])
    def test_the_cluster_is_the_same_for_all_and_has_no_evaluator(self, replica: str) -> None:
        config = json.loads(environment(self.job, replica)["TF_CONFIG"])
        role, index = replica.split("-")
        assert config == {
            "cluster": {
                "chief": ["10.0.0.0:2222"],
                "ps": ["10.0.1.0:2222"],
                "worker": ["10.0.2.0:2222", "10.0.2.1:2222"],
            },
            "task": {"type": role, "index": int(index)},
            "environment": "cloud",
        }

    def test_a_master_keeps_its_name(self) -> None:
        job = make_job("tensorflow", {"master": 1, "worker": 1})
        assert list(json.loads(environment(job, "master-0")["TF_CONFIG"])["cluster"]) == ["master", "worker"]

    def test_a_single_replica_trains_without_a_cluster(self) -> None:
        assert "TF_CONFIG" not in environment(make_job("tensorflow", {"worker": 1}), "worker-0")

    @pytest.mark.parametrize(
        ("replica", "want"),
        [
            ("worker-1", {"worker": {"1": "10.0.1.1:2222"}, "ps": ["10.0.0.0:2222", "10.0.0.1:2222"]}),
            ("ps-1", {"worker": {}, "ps": ["10.0.0.1:2222"]}),
        ],
    )
    def test_dynamic_workers_see_a_sparse_cluster(self, replica: str, want: dict[str, object]) -> None:
        job = make_job("tensorflow", {"ps": 2, "worker": 2}, env={"GANGLINE_TF_DYNAMIC_WORKERS": "1"})
        assert json.loads(environment(job, replica)["TF_CONFIG"])["cluster"] == want


class TestPyTorch:
    def test_the_master_is_rank_zero_and_everybody_meets_there(self) -> None:
        job = make_job("pytorch", {"worker": 2, "master": {"port": 23456}})
        env = environment(job, "worker-1")
        assert {name: env[name] for name in env if not name.startswith(("GANGLINE", "PYTHON"))} == {
            "MASTER_ADDR": "10.0.1.0",
            "MASTER_PORT": "23456",
            "RANK": "2",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "3",
            "PET_MASTER_ADDR": "10.0.1.0",
            "PET_MASTER_PORT": "23456",
            "PET_NODE_RANK": "2",
            "PET_NNODES": "3",
        }
        assert environment(job, "master-0")["RANK"] == "0"

    @pytest.mark.parametrize(("given", "want"), [(4, "8"), ("auto", "2"), ("gpu", "2")])
    def test_the_world_counts_processes(self, given: int | str, want: str) -> None:
        env = environment(make_job("pytorch", {"worker": 2}, processes=given), "worker-0")
        assert (env["WORLD_SIZE"], env["PET_NPROC_PER_NODE"]) == (want, str(given))

    def test_the_users_own_number_of_processes_wins(self) -> None:
        job = make_job("pytorch", {"worker": 2}, processes=4, env={"PET_NPROC_PER_NODE": "3"})
        env = environment(job, "worker-0")
        assert (env["WORLD_SIZE"], env["PET_NPROC_PER_NODE"]) == ("6", "3")

    def test_an_elastic_job_meets_by_rendezvous(self) -> None:
        job = make_job("pytorch", {"worker": {"replicas": 2, "min": 1, "max": 4}})
        env = environment(job, "worker-1")
        assert env["PET_NNODES"] == "1:4"
        assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"], env["PET_RDZV_ID"]) == (
            "c10d",
            "10.0.0.0:2222",
            "mnist",
        )

    def test_service_replicas_do_not_train(self) -> None:
        job = make_job("pytorch", {"worker": 2, "tensorboard": 1})
        assert environment(job, "worker-0")["WORLD_SIZE"] == "2"
        assert "RANK" not in environment(job, "tensorboard-0")


class TestMpi:
    job = make_job("mpi", {"launcher": 1, "worker": 2})

    def test_each_mpirun_finds_the_hostfile_and_the_way_to_a_host(self) -> None:
        env = environment(self.job, "launcher-0", hostfile_path="/etc/mpi/hostfile", remote_shell="/etc/mpi/reach")
        assert {name for name in env if env[name] == "/etc/mpi/hostfile"} == {
            "OMPI_MCA_orte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile",
            "I_MPI_HYDRA_HOST_FILE",
            "HYDRA_HOST_FILE",
        }
        assert {name for name in env if env[name] == "/etc/mpi/reach"} == {
            "OMPI_MCA_plm_rsh_agent",
            "PRTE_MCA_plm_ssh_agent",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
            "HYDRA_LAUNCHER_EXEC",
        }

    def test_nothing_is_set_when_the_engine_has_no_hostfile(self) -> None:
        assert not [name for name in environment(self.job, "launcher-0") if "MPI" in name]

    @pytest.mark.parametrize(
        ("implementation", "want"),
        [
            (Implementation.OPEN_MPI, "10.0.1.0 slots=4\n10.0.1.1 slots=4\n"),
            (Implementation.INTEL, "10.0.1.0:4\n10.0.1.1:4\n"),
            (Implementation.MPICH, "10.0.1.0:4\n10.0.1.1:4\n"),
        ],
    )
    def test_the_hostfile_lists_the_workers(self, implementation: Implementation, want: str) -> None:
        job = make_job("mpi", {"launcher": 1, "worker": 2}, processes=4)
        assert hostfile(job, addresses(job), implementation=implementation) == want

    def test_the_job_may_say_processes_and_implementation(self) -> None:
        settings = {"GANGLINE_MPI_IMPLEMENTATION": "Intel"}
        job = make_job("mpi", {"launcher": 1, "worker": 1}, processes=2, env=settings)
        assert hostfile(job, addresses(job)) == "10.0.1.0:2\n"

    def test_a_launcher_alone_is_its_own_host(self) -> None:
        job = make_job("mpi", {"launcher": 1})
        assert hostfile(job, addresses(job)) == "10.0.0.0 slots=1\n"


def test_jax_processes_find_the_coordinator() -> None:
    env = environment(make_job("jax", {"worker": {"replicas": 2, "port": 6666}}), "worker-1")
    assert {name: env[name] for name in env if not name.startswith(("GANGLINE", "PYTHON"))} == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.0:6666",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
        "COORDINATOR_ADDRESS": "10.0.0.0",
        "COORDINATOR_PORT": "6666",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
    }


def test_xgboost_workers_find_the_tracker_and_each_other() -> None:
    env = environment(
        make_job("xgboost", {"master": {"port": 9999}, "worker": {"replicas": 2, "port": 9998}}), "worker-0"
    )
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["RANK"], env["WORLD_SIZE"]) == ("10.0.0.0", "9999", "1", "3")
    assert (env["DMLC_TRACKER_URI"], env["DMLC_TRACKER_PORT"], env["DMLC_NUM_WORKER"]) == ("10.0.0.0", "9999", "3")
    assert (env["WORKER_ADDRS"], env["WORKER_PORT"]) == ("10.0.1.0,10.0.1.1", "9998")


def test_a_single_xgboost_replica_has_no_workers() -> None:
    assert "WORKER_ADDRS" not in environment(make_job("xgboost", {"master": 1}), "master-0")


def test_paddle_collective_mode_meets_at_the_first_worker() -> None:
    env = environment(make_job("paddle", {"worker": {"replicas": 2, "port": 36543}}), "worker-1")
    assert {name: env[name] for name in env if name.startswith("PADDLE")} == {
        "PADDLE_JOB_ID": "mnist",
        "PADDLE_NNODES": "2",
        "PADDLE_MASTER": "10.0.0.0:36543",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.1:36543",
    }


@pytest.mark.parametrize(("roles", "lead"), [({"worker": 2}, "worker-0"), ({"master": 1, "worker": 2}, "master-0")])
def test_only_the_first_replica_of_a_paddle_job_meets_the_others_at_its_own_address(
    roles: dict[str, object], lead: str
) -> None:
    job = make_job("paddle", roles)
    team = Team.of(job, addresses(job), own_host="own")
    told = {str(replica): team_environment(team, replica)["PADDLE_MASTER"] for replica in team.ranked}
    assert told.pop(lead).startswith("own:")
    assert set(told.values()) == {team.endpoint(team.lead)}


@pytest.mark.parametrize(("replica", "want"), [("master-0", "PADDLE_SERVER_NUM"), ("worker-0", "PADDLE_TRAINER_NUM")])
def test_paddle_with_a_master_serves_and_trains(replica: str, want: str) -> None:
    env = environment(make_job("paddle", {"master": 1, "worker": 2}), replica)
    assert env[want] == "1"
    assert "PADDLE_TRAINER_ID" not in env


@pytest.mark.parametrize("framework", ["jax", "xgboost", "paddle"])
def test_service_replicas_get_no_rank(framework: str) -> None:
    job = make_job(framework, {"worker": 2, "tensorboard": 1})
    assert not [name for name in environment(job, "tensorboard-0") if name.startswith(("RANK", "JAX", "PADDLE"))]
