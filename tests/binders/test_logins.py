"""Jobs and engines behind real logins; and that after a run full of secrets none of them is anywhere.

One broker, one Spark Connect server that demands a token, one Flink cluster that demands a certificate; all
of them made to log and show what they can.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile
from operator import not_
from pathlib import Path
from subprocess import PIPE

import pytest
import requests

from binders.flink import connect_engine as flink_engine
from binders.spark import connect_engine as spark_engine
from binders.spark.local.commands import CONNECTOR
from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret, Site
from speck.core.job import Job
from speck.core.runtime import JobState
from speck.errors import BinderError, LocalError, Rejected, Unreachable
from speck.testing import attempt_of, eventually
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS
from testbed.servers.base import free_port
from testbed.servers.forked import Forked
from testbed.servers.guarded_broker import USER, GuardedBroker, guarded_broker
from testbed.servers.guarded_flink import GuardedFlink
from testbed.servers.https_proxy import HttpsProxy, https_proxy
from testbed.servers.spark import SparkServer
from tests.support.secret_search import Processes, Search
from tests.support.trials import trial

pytestmark = pytest.mark.engine

FLINK_JAR = ROOT / FLINK_CODE

# Each is found wherever it stands: no other text holds it, and no encoding of texts changes it.
TOKEN = "s3cretTokenOfSpark77192"
PASSWORD = "s3cretPasswordOfBroker55013"
WRONG = "s3cretAndWrong90817"
API_TOKEN = "s3cretTokenOfTheServer33410"
FLINK_PASSWORD = "s3cretPasswordOfFlink61248"
IN_A_FILE = "s3cretOfAnEnvironment72903"  # in a file of variables, where no composition asks for it
WRITTEN = "s3cretWrittenOut40617"  # where only a reference may stand


@dataclass(frozen=True)
class Guarded:
    """The servers of the site."""

    broker: GuardedBroker
    spark: SparkServer
    flink: GuardedFlink
    directory: Path

    @property
    def password_login(self) -> Login:
        login = Login(username=USER, password=Secret("${GUARDED_PASSWORD}"))
        return replace(login, ca_file=str(self.broker.authority.file))

    @property
    def certificate_login(self) -> Login:
        client = self.broker.client
        login = Login(certificate_file=str(client.file), key_file=str(client.key))
        return replace(login, ca_file=str(self.broker.authority.file))

    def inventory(self, *brokers: Broker) -> Inventory:
        engines = (
            Engine(
                spe_address=self.spark.address,
                engine_login=Login(token=Secret("${GUARDED_TOKEN}")),
                checkpoint_dir=str(self.directory / "checkpoints"),
            ),
            Engine(spe_address=self.flink.address, engine_login=self.flink.login),
        )
        site = Site(name="A", engines=engines, broker_address=self.broker.address)
        return Inventory({"A": site}, {str(number): each for number, each in enumerate(brokers)})

    def job(self, name: str, source: str, sink: str) -> Job:
        return Job(
            job_name=name,
            spe_address=self.spark.address,
            source_broker=source,
            source_topic=f"in/{name}",
            sink_broker=sink,
            sink_topic=f"out/{name}",
            entry_class="upper",
            job_path=str(JOBS / "simple.py"),
            engine="spark",
        )

    def flink_job(self, name: str, source: str, sink: str) -> Job:
        return replace(
            self.job(name, source, sink),
            spe_address=self.flink.address,
            entry_class="io.speck.flink.jobs.Forward",
            job_path=str(FLINK_JAR),
            engine="flink",
        )


@pytest.fixture(scope="module", name="guarded")
def guarded_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    if not CONNECTOR.exists() or not FLINK_JAR.exists():
        pytest.skip("the connectors are not built (make jars)")
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "events").mkdir()
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (directory / "events").as_uri(),
    }
    with guarded_broker(directory, PASSWORD) as broker:
        own = broker.authority.certificate("flink", "127.0.0.1", rsa=True)
        try:
            flink = GuardedFlink(directory / "flink", broker.authority, own, broker.client)
        except LocalError as error:
            pytest.skip(str(error))
        spark = SparkServer(directory / "spark", heap="512m", conf=conf)
        spark.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = TOKEN
        with spark, flink:
            yield Guarded(broker, spark, flink, directory)


@pytest.fixture(autouse=True)
def secrets_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDED_TOKEN", TOKEN)
    monkeypatch.setenv("GUARDED_PASSWORD", PASSWORD)
    monkeypatch.setenv("GUARDED_FLINK", FLINK_PASSWORD)


@pytest.fixture(name="mqtt_client")
def mqtt_client_fixture(guarded: Guarded) -> Iterator[MqttClient]:
    mqtt_client = MqttClient(guarded.broker.server.port)
    yield mqtt_client
    mqtt_client.close()


# -- jobs that log in to brokers


@contextmanager
def started(guarded: Guarded, job: Job, *brokers: Broker) -> Iterator[Callable[[], tuple[JobState, str]]]:
    """A job on its engine, and how to ask for its state."""
    connect = spark_engine if job.engine == "spark" else flink_engine
    engine = connect(job.spe_address, guarded.inventory(*brokers))
    handle = None
    try:
        handle = engine.submit(job, attempt_of(job))

        def state() -> tuple[JobState, str]:
            status = engine.status(handle)
            return status.state, status.message

        yield state
    finally:
        if handle is not None:
            engine.stop(handle, keep_state=False)
        engine.close()


def passes_on(guarded: Guarded, mqtt_client: MqttClient, job: Job, *brokers: Broker) -> None:
    with started(guarded, job, *brokers) as state:
        eventually(state, lambda found: found[0] is JobState.RUNNING)
        mqtt_client.send(job.source_topic, ["a"])
        eventually(
            lambda: mqtt_client.got(job), lambda got: got == (["A"] if job.engine == "spark" else ["a"])
        )


@trial("the search for secrets, whose jobs do so on both engines")
@pytest.mark.parametrize("engine", ["spark", "flink"])
def test_a_job_reads_with_a_password_and_writes_with_a_certificate(
    guarded: Guarded, mqtt_client: MqttClient, engine: str, job_name: str
) -> None:
    broker = guarded.broker
    make = guarded.job if engine == "spark" else guarded.flink_job
    job = make(job_name, broker.password, broker.certificate)
    session_of(guarded, job)
    brokers = (
        Broker(broker_address=broker.password, broker_login=guarded.password_login),
        Broker(broker_address=broker.certificate, broker_login=guarded.certificate_login),
    )
    passes_on(guarded, mqtt_client, job, *brokers)


@pytest.mark.parametrize("engine", ["spark", "flink"])
def test_a_job_reads_its_password_where_it_runs(
    guarded: Guarded, mqtt_client: MqttClient, engine: str, job_name: str, tmp_path: Path
) -> None:
    broker = guarded.broker
    (file := tmp_path / "password").write_text(f"{PASSWORD}\n")
    own = JobLogin(username=USER, password_file=str(file), ca_file=str(broker.authority.file))
    make = guarded.job if engine == "spark" else guarded.flink_job
    job = make(job_name, broker.address, broker.password)
    session_of(guarded, job)
    wrong = replace(guarded.password_login, password=Secret("${GUARDED_TOKEN}"))
    passes_on(
        guarded, mqtt_client, job, Broker(broker_address=broker.password, broker_login=wrong, job_login=own)
    )


def session_of(guarded: Guarded, job: Job) -> None:
    """Create the job's session, as the coordinator does."""
    from binders.mqtt import MqttBroker
    from speck.core.job import client_id

    MqttBroker(guarded.broker.address, Inventory()).ensure_session(client_id(job.job_name), job.source_topic)


def wrong_logins(guarded: Guarded, file: Path) -> dict[str, tuple[str, JobLogin, str]]:
    """For each: the broker, the login, and what the job says."""
    broker, trusted = guarded.broker, str(guarded.broker.authority.file)
    login = JobLogin(username=USER, password=Secret("${GUARDED_WRONG}"), ca_file=trusted)
    shown = JobLogin(
        certificate_file=str(broker.stranger.file), key_file=str(broker.stranger.key), ca_file=trusted
    )
    other = str(broker.authority.directory / "other.pem")
    return {
        "password": (broker.password, login, "not authorized"),
        "no-password": (broker.password, JobLogin(ca_file=trusted), "not authorized"),
        "no-file": (
            broker.password,
            JobLogin(username=USER, password_file=str(file), ca_file=trusted),
            f"the password file '{file}' cannot be read",
        ),
        "no-certificate": (broker.certificate, JobLogin(ca_file=trusted), "it demands a client certificate"),
        "stranger": (broker.certificate, shown, "it refuses our certificate"),
        "expired": (broker.expired, JobLogin(ca_file=trusted), "its certificate has expired"),
        "elsewhere": (broker.elsewhere, JobLogin(ca_file=trusted), "its certificate is not for '127.0.0.1'"),
        "untrusted": (broker.password, JobLogin(ca_file=other), "its certificate is not trusted"),
        "rubbish": (broker.password, JobLogin(ca_file=str(JOBS / "simple.py")), "caFile '"),
    }


def test_jobs_with_wrong_logins_say_so(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side, since each is refused for two seconds before it ends."""
    monkeypatch.setenv("GUARDED_WRONG", WRONG)
    wrong = wrong_logins(guarded, tmp_path / "nowhere")

    def outcome_of(kind: str) -> str:
        address, login, _ = wrong[kind]
        job = guarded.job(f"wrong-{kind}", address, guarded.broker.address)
        return outcome(guarded, job, Broker(broker_address=address, job_login=login))

    with ThreadPoolExecutor(3) as pool:
        said = dict(zip(wrong, pool.map(outcome_of, wrong), strict=True))
    assert {kind: text for kind, text in said.items() if wrong[kind][2] not in text} == {}
    assert [kind for kind, text in said.items() if WRONG in text] == []


def outcome(guarded: Guarded, job: Job, broker: Broker) -> str:
    """The reason of a job that cannot run, whenever it is detected."""
    try:
        with started(guarded, job, broker) as state:
            return eventually(state, lambda found: found[0] is JobState.FAILED)[1]
    except BinderError as error:
        return str(error)


# -- Flink's own door


def flink_failure(guarded: Guarded, login: Login, host: str = "127.0.0.1") -> BinderError:
    address = guarded.flink.address.replace("127.0.0.1", host)
    engine = Engine(spe_address=address, engine_login=login)
    site = Site(name="A", engines=(engine,), broker_address="tcp://127.0.0.1:1")
    connected = flink_engine(address, Inventory({"A": site}))
    try:
        with pytest.raises(BinderError) as caught:
            connected.capacity()
    finally:
        connected.close()
    assert "\n" not in str(caught.value)
    assert address in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("none", "it requires a client certificate"),
        ("stranger", "it rejects our certificate"),
        ("late", "it rejects our certificate"),
        ("untrusted", "its certificate is not trusted"),
        ("host", "its certificate is not for 'localhost'"),
        ("file", r"certificate_file .*none\.pem' of engine_login does not exist"),
    ],
)
def test_who_is_not_let_in_by_flink(guarded: Guarded, kind: str, words: str) -> None:
    broker, login = guarded.broker, guarded.flink.login
    logins = {
        "none": Login(ca_file=login.ca_file),
        "untrusted": replace(login, ca_file=str(broker.authority.directory / "other.pem")),
        "file": replace(login, certificate_file=str(broker.authority.directory / "none.pem")),
        "host": login,
    }
    if kind in ("stranger", "late"):
        shown = getattr(broker, kind)
        logins[kind] = replace(login, certificate_file=str(shown.file), key_file=str(shown.key))
    found = flink_failure(guarded, logins[kind], "localhost" if kind == "host" else "127.0.0.1")
    assert isinstance(found, Unreachable | Rejected)
    with pytest.raises(BinderError, match=words):
        raise found


# -- after a run full of secrets


INVENTORY = """\
sites:
  A:
    engines:
    - spe_address: {spark}
      engine_login: {{token: "${{GUARDED_TOKEN}}"}}
      checkpoint_dir: {directory}/checkpoints
    - spe_address: {flink}
      engine_login: {{username: speck, password: "${{GUARDED_FLINK}}", ca_file: {proxy}}}
    broker_address: {plain}
  B:
    spe_address: {spark_again}
    engine_login: {{token: "${{GUARDED_WRONG}}"}}
    broker_address: {password_again}
    broker_login: {{username: speck, password: "${{GUARDED_WRONG}}", ca_file: {ca}}}
  C:
    spe_address: {flink_again}
    engine_login: {{username: speck, password: "${{GUARDED_WRONG}}", ca_file: {proxy_again}}}
    broker_address: {plain}
brokers:
  by-password:
    broker_address: {password}
    broker_login: {{username: speck, password: "file:{file}", ca_file: {ca}}}
    job_login: {{username: speck, password: "${{GUARDED_PASSWORD}}", ca_file: {ca}}}
  by-certificate:
    broker_address: {certificate}
    broker_login: {{ca_file: {ca}, certificate_file: {client}, key_file: {key}}}
"""

COMPOSITION = """\
jobs:
- job_name: searched-spark
  site: A
  engine: spark
  source_broker: by-certificate
  source_topic: in/searched
  sink_broker: by-password
  sink_topic: searched
  entry_class: upper
  job_path: simple.py
  arguments: {suffix: "${SUFFIX}"}
- job_name: searched-flink
  site: A
  engine: flink
  source_broker: by-password
  source_topic: searched
  sink_broker: by-certificate
  sink_topic: out/searched
  entry_class: io.speck.flink.jobs.Forward
  job_path: speck-flink-jobs.jar
"""

REFUSED = """\
jobs:
- {{job_name: refused-{site}, site: {site}, engine: spark, source_broker: {broker},
   source_topic: in/refused-{site}, sink_broker: by-password, sink_topic: out/refused,
   entry_class: upper, job_path: simple.py}}
"""


# All of it is refused, and none of it repeated.
WRITTEN_OUT = """\
jobs:
- job_name: written
  spe_address: http://user:{secret}@127.0.0.1:1/
  source_broker: tcp://user:{secret}@127.0.0.1:1
  source_topic: in/written
  sink_broker: by-password
  sink_topic: out/written
  entry_class: upper
  job_path: simple.py
  arguments:
    password: {secret}
    url: jdbc://user:{secret}@host/x
    pem: "-----BEGIN PRIVATE KEY----- {secret}"
  labels: {{api_key: {secret}}}
"""


@dataclass
class Run:
    """A server with the inventory, what the command line said, and where the server keeps its things."""

    directory: Path
    url: str
    process: subprocess.Popen[bytes]
    said: list[str] = field(default_factory=list)

    def speck(self, *arguments: str, code: int = 0) -> None:
        """A command that ends so, to be looked through afterwards."""
        command = ["--server", self.url, *arguments]
        with Forked(
            "testbed.servers.debug_serve", command, cwd=ROOT, env=environment(), stdout=PIPE, stderr=PIPE
        ) as process:
            out, err = process.communicate(300)
        self.said.append(f"{' '.join(arguments)}\n{out}{err}")
        assert process.returncode == code, self.said[-1]

    def get(self, path: str) -> bytes:
        """An answer; of one that has no end, its first event."""
        headers = {"Authorization": f"Bearer {API_TOKEN}"}
        with requests.get(f"{self.url}{path}", headers=headers, timeout=120, stream=True) as answer:
            assert answer.ok, answer.text
            if path == "/live":
                return b"\n".join(takewhile(bool, dropwhile(not_, answer.iter_lines())))
            return answer.content

    @property
    def scratch(self) -> Path:
        return self.directory / "scratch"

    @property
    def log(self) -> Path:
        return self.directory / "serve.log"


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "SPECK_TOKEN": API_TOKEN, "GUARDED_WRONG": WRONG}


@contextmanager
def serving(guarded: Guarded, proxies: Sequence[HttpsProxy], directory: Path, secret: Path) -> Iterator[Run]:
    (directory / "sites.yaml").write_text(inventory_text(guarded, proxies, secret))
    port = free_port()
    command = [sys.executable, "-m", "testbed.servers.debug_serve", "serve", "-v", "--port", str(port)]
    command += ["--data-dir", str(directory / "store"), "--sites", str(directory / "sites.yaml")]
    command += ["--root", str(JOBS), "--root", str(FLINK_JAR.parent)]
    (scratch := directory / "scratch").mkdir()
    with (directory / "serve.log").open("wb") as log:
        own = environment() | {"TMPDIR": str(scratch)}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=own)
    try:
        run = Run(directory, f"http://127.0.0.1:{port}", process)
        eventually(lambda: run.log.read_text(), lambda text: "SpecK serves" in text)
        yield run
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def proxies_of(guarded: Guarded, directory: Path) -> Iterator[Sequence[HttpsProxy]]:
    """Two before Flink, which ask for its password: one for who knows it, one for who does not."""
    flink, client = guarded.flink, guarded.broker.client
    with ExitStack() as stack:
        proxies = []
        for name in ("first", "second"):
            (place := directory / name).mkdir()
            before = https_proxy(
                place, flink.address, USER, FLINK_PASSWORD, flink.authority.file, (client.file, client.key)
            )
            proxies.append(stack.enter_context(before))
        yield proxies


def inventory_text(guarded: Guarded, proxies: Sequence[HttpsProxy], secret: Path) -> str:
    broker = guarded.broker
    return INVENTORY.format(
        spark=guarded.spark.address,
        spark_again=guarded.spark.address.replace("127.0.0.1", "localhost"),
        flink=proxies[0].address,
        proxy=proxies[0].certificate,
        flink_again=proxies[1].address,
        proxy_again=proxies[1].certificate,
        directory=guarded.directory,
        plain=broker.address,
        password=broker.password,
        password_again=broker.password.replace("127.0.0.1", "localhost"),
        certificate=broker.certificate,
        ca=broker.authority.file,
        client=broker.client.file,
        key=broker.client.key,
        file=secret,
    )


def work_through(run: Run, mqtt_client: MqttClient, directory: Path) -> None:
    """Deploy, send, update, look, go back; and what goes wrong on the way."""
    (file := directory / "searched.yaml").write_text(COMPOSITION)
    sought = replace(_NOBODY, sink_topic="out/searched")
    (values := directory / "values.env").write_text(f"SUFFIX=3\nDATABASE_PASSWORD={IN_A_FILE}\n")
    (written := directory / "written.yaml").write_text(WRITTEN_OUT.format(secret=WRITTEN))
    run.speck("sites")
    run.speck("sites", "check", code=1)
    run.speck("plan", str(file), "--set", "SUFFIX=1", code=2)
    run.speck("plan", str(file), "--env", str(values), code=2)
    for command in ("validate", "apply"):
        run.speck(command, str(written), code=1)
    for number in ("1", "2"):
        run.speck("apply", str(file), "--yes", "--set", f"SUFFIX={number}")
        mqtt_client.send("in/searched", ["a"])
        eventually(lambda: mqtt_client.got(sought), lambda got, number=number: f"A{number}" in got)
    for command in ("jobs", "show searched-spark", "show searched-flink", "history searched", "sites"):
        run.speck(*command.split())
    for site, broker in (("B", "by-password"), ("A", "B")):
        (refused := directory / f"refused-{site}.yaml").write_text(REFUSED.format(site=site, broker=broker))
        run.speck("apply", str(refused), code=1)
    run.speck("rollback", "searched", "--yes")
    run.speck("events")


_NOBODY = Job(
    **dict.fromkeys(
        (
            *("job_name", "spe_address", "source_broker", "source_topic", "sink_broker", "sink_topic"),
            *("entry_class", "job_path", "engine"),
        ),
        "",
    )
)


def inspect_server(run: Run, search: Search) -> None:
    paths = ["/openapi.json", "/jobs", "/compositions", "/sites", "/metrics", "/healthz", "/store/check"]
    paths += ["/live", "/rates", "/operations", "/whoami", "/sites/check", "/compositions/searched/revisions"]
    paths += [f"/jobs/searched-{engine}/logs" for engine in ("spark", "flink")]
    paths += ["/jobs/searched-spark", "/jobs/searched-flink", "/compositions/searched"]
    paths += ["/compositions/searched/revisions/1", "/compositions/searched/diff", "/events?limit=1000"]
    for path in paths:
        search.search(path, run.get(path))
    events = json.loads(run.get("/events?limit=1000"))
    for operation in {each["operation"] for each in events if each["operation"]}:
        search.search(f"operation {operation}", run.get(f"/operations/{operation}"))
    search.search_tar("backup", run.get("/store/backup"))


def inspect_engines(guarded: Guarded, search: Search) -> None:
    assert crawl(f"http://127.0.0.1:{guarded.spark.conf['spark.ui.port']}", search) > 5
    flink = guarded.flink
    jobs = [each["jid"] for each in flink.get("jobs/overview").json()["jobs"]]
    workers = [each["id"] for each in flink.get("taskmanagers").json()["taskmanagers"]]
    pages = ["jobmanager/config", "jobmanager/environment", "jobmanager/logs", "jars", "overview"]
    of_jobs = ("", "/config", "/plan", "/checkpoints", "/exceptions", "/jobmanager/config")
    pages += [f"jobs/{job}{page}" for job in jobs for page in (*of_jobs, "/jobmanager/environment")]
    pages += [f"taskmanagers/{worker}{page}" for worker in workers for page in ("", "/logs", "/thread-dump")]
    for page in pages:
        search.search(f"Flink's {page}", flink.get(page).content)


def crawl(base: str, search: Search) -> int:
    """Look into the pages of a web interface, five of those that differ in their query; their number."""
    seen, kinds, waiting = set[str](), Counter[str](), ["/", "/api/v1/applications", "/connect/"]
    while waiting and len(seen) < 60:
        path = waiting.pop(0)
        kind = path.partition("?")[0]
        if path in seen or kinds[kind] == 5:
            continue
        seen.add(path)
        kinds[kind] += 1
        answer = requests.get(f"{base}{path}", timeout=60)
        search.search(f"Spark's {path}", answer.content)
        if "html" in answer.headers.get("Content-Type", ""):
            waiting += [
                each
                for each in re.findall(r'href="(/[^"#]*)"', html.unescape(answer.text))
                if "/static" not in each
            ]
    return len(seen)


def test_no_secret_is_left_anywhere(guarded: Guarded, mqtt_client: MqttClient, tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_text(PASSWORD)
    secret.chmod(0o600)
    key = guarded.broker.client.key.read_text().splitlines()[1]
    search = Search(
        {"token": TOKEN, "password": PASSWORD, "wrong": WRONG, "API's token": API_TOKEN, "key": key}
        | {"Flink's password": FLINK_PASSWORD, "in a file": IN_A_FILE, "written out": WRITTEN}
    )
    (directory := tmp_path / "run").mkdir()
    with proxies_of(guarded, tmp_path) as proxies, Processes(search) as processes:
        with serving(guarded, proxies, directory, secret) as run:
            processes.below(run.process.pid, run.scratch)
            work_through(run, mqtt_client, tmp_path)
            inspect_server(run, search)
            inspect_engines(guarded, search)
            run.speck("delete", "searched", "--yes")
        search.search_database(directory / "store")
    for said in run.said:
        search.search(said.splitlines()[0], said)
    search.search_below(directory)
    for name in ("events", "checkpoints", "spark", "flink"):
        search.search_below(guarded.directory / name)
    assert search.found == []
    assert search.searched > 100
    assert "[debug" in run.log.read_text()
