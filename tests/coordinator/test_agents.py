"""Sites that join by codes, and the agents that are away or back: on a real store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from speck.coordinator.agents import Agents, Enrolment
from speck.coordinator.agents.enrolment import KEPT, LIFETIME
from speck.coordinator.agents.presence import GRACE, MOST_SECOND
from speck.core.inventory import Broker, Inventory, Site
from speck.core.lifecycle import EventKind
from speck.core.live_inventory import live
from speck.errors import Conflict, InvalidInput, NotFound
from speck.link.code import JoinCode, server_mark
from speck.link.frames import PROTOCOL
from speck.link.hello import Hello, Joined, JoinRequest
from speck.link.journal import MOST, JournalEntry
from speck.server.agents import SiteTokens
from speck.server.tokens import Owner, Role, TokenFile, add_owner, digest, remove_owner
from speck.store import Store
from testbed.benches.examples import one_site
from testbed.doubles.agents import Wires
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENTRY = {"spe_address": "sc://street:15002", "broker_address": "tcp://street:1883"}
KNOWN = Site(
    name="known",
    engines=one_site("known", "sc://known:15002", "tcp://known:1883").engines,
    broker_address="tcp://known:1883",
    agent=True,
)
DIRECT = one_site("direct", "sc://direct:15002", "tcp://direct:1883")
INVENTORY = Inventory({"known": KNOWN, "direct": DIRECT}, {"far": Broker(broker_address="tcp://far:1883")})


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        yield store


@pytest.fixture(name="clock")
def clock_fixture() -> Clock:
    return Clock()


def enrolment_on(store: Store, clock: Clock, inventory: Inventory = INVENTORY, **how: Any) -> Enrolment:
    return Enrolment(store, live(inventory), double_kinds(World()), clock, **how)


@pytest.fixture(name="enrolment")
def enrolment_fixture(store: Store, clock: Clock) -> Enrolment:
    return enrolment_on(store, clock)


def request(code: str, entry: Mapping[str, Any] | None = None, protocol: int = PROTOCOL) -> JoinRequest:
    return JoinRequest(protocol=protocol, version="1", code=code, machine="m1", entry=entry)


def joined(enrolment: Enrolment, site: str = "street") -> Joined:
    entry = ENTRY if site == "street" else None
    return enrolment.join(request(enrolment.invite(site).code, entry))


def kinds(store: Store) -> list[str]:
    return [each.kind for each in store.events()]


def test_a_site_joins_by_its_code(enrolment: Enrolment, store: Store) -> None:
    told: list[str] = []
    enrolment.on_changed.append(told.extend)
    found = joined(enrolment)
    assert enrolment.site_of(found.token.encode()) == "street"
    assert enrolment.inventory.sites["street"] == found.site
    assert enrolment.inventory.site_of_engine("sc://street:15002") == found.site
    assert found.site.agent
    assert set(told) == {"sc://street:15002", "tcp://street:1883"}
    assert kinds(store) == [EventKind.INVITED, EventKind.JOINED]
    assert enrolment.site_of(b"another") is None


def test_a_site_of_the_inventory_gets_its_entry(enrolment: Enrolment) -> None:
    found = joined(enrolment, "known")
    assert found.site == KNOWN
    assert enrolment.inventory.sites["known"] == KNOWN
    stronger = enrolment.join(request(enrolment.invite("known").code, ENTRY))
    assert stronger.site == KNOWN


def test_what_joined_outlives_a_restart(enrolment: Enrolment, store: Store, clock: Clock) -> None:
    found = joined(enrolment)
    again = enrolment_on(store, clock)
    assert again.site_of(found.token.encode()) == "street"
    assert again.inventory.sites["street"] == found.site


def test_no_secret_is_stored(enrolment: Enrolment, store: Store) -> None:
    code = enrolment.invite("street").code
    found = enrolment.join(request(code, ENTRY))
    stored = b"".join(key + value for key, value in store.records())
    events = " ".join(each.message for each in store.events())
    for secret in (found.token.encode(), code.encode(), JoinCode.parse(code).secret):
        assert secret not in stored
        assert secret not in events.encode()
    assert found.token not in repr(found)


def test_a_code_is_used_once(enrolment: Enrolment) -> None:
    code = enrolment.invite("street").code
    first = enrolment.join(request(code, ENTRY))
    with pytest.raises(InvalidInput, match=r"code of site 'street' was used before .make another with"):
        enrolment.join(request(code, ENTRY))
    assert enrolment.site_of(first.token.encode()) == "street"


def test_a_code_expires(enrolment: Enrolment, clock: Clock) -> None:
    code = enrolment.invite("street").code
    clock.now += LIFETIME
    for seconds, ago in ((20, "just now"), (40, "a minute ago"), (60, "2 minutes ago")):
        clock.now += seconds
        with pytest.raises(InvalidInput, match=f"expired {ago}"):
            enrolment.join(request(code, ENTRY))
    clock.now += KEPT
    enrolment.invite("other")
    with pytest.raises(InvalidInput, match=r"not known here"):
        enrolment.join(request(code, ENTRY))


def test_a_later_code_replaces_the_former(enrolment: Enrolment) -> None:
    former, other = enrolment.invite("street").code, enrolment.invite("lane").code
    enrolment.invite("street")
    with pytest.raises(InvalidInput, match=r"was replaced by a later one"):
        enrolment.join(request(former, ENTRY))
    assert enrolment.join(request(other, ENTRY)).site.name == "lane"


@pytest.mark.parametrize("site", ["street", "known"])
def test_a_code_of_another_server_is_named(enrolment: Enrolment, site: str) -> None:
    code = JoinCode(site=site, server=server_mark("another"))
    with pytest.raises(InvalidInput, match=r"belongs to another server"):
        enrolment.join(request(code.text(), ENTRY))


def test_a_guessed_code_is_refused(enrolment: Enrolment, store: Store) -> None:
    enrolment.invite("street")
    code = JoinCode(site="street", server=server_mark(store.identity))
    with pytest.raises(InvalidInput, match=r"not known here"):
        enrolment.join(request(code.text(), ENTRY))


def test_a_code_is_of_one_site(enrolment: Enrolment) -> None:
    made = JoinCode.parse(enrolment.invite("street").code)
    other = JoinCode(site="known", server=made.server, secret=made.secret)
    with pytest.raises(InvalidInput, match=r"not known here"):
        enrolment.join(request(other.text()))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (None, "not in the server's inventory .give its servers: --engine and --broker"),
        ({"spe_address": "sc://street:15002"}, "broker_address"),
        (ENTRY | {"colour": "red"}, "colour"),
        (
            ENTRY | {"broker_login": {"username": "a", "password": "plain"}},
            "broker_login cannot be set by a site",
        ),
        (
            ENTRY | {"broker_login": {"username": "a", "password": "${SPECK_TOKEN}"}},
            "broker_login cannot be set",
        ),
        (ENTRY | {"job_login": {"username": "a", "password": "file:/etc/shadow"}}, "job_login cannot be set"),
        (
            ENTRY | {"scale": {"min": 1, "max": 2, "cores": 1, "command": ["sh"]}},
            "scale cannot be set by a site",
        ),
        (ENTRY | {"labels": ["edge"]}, "labels cannot be set by a site"),
        (
            {"broker_address": "tcp://b:1", "engines": [{"spe_address": "sc://a:1", "scale": {"min": 1}}]},
            "scale cannot be set by a site",
        ),
        (
            {"broker_address": "tcp://b:1", "engines": [{"spe_address": "sc://a:1", "hook": {"url": "x"}}]},
            "hook cannot be set by a site",
        ),
        (ENTRY | {"spe_address": "sc://direct:15002"}, "through its agent, and 'direct' has the same"),
        (ENTRY | {"broker_address": "tcp://far:1883"}, "through its agent, and 'far' has the same"),
        (
            ENTRY | {"spe_address": "spark+ssh://street:1"},
            "no installed binder supports spe_address 'spark.ss",
        ),
        (
            ENTRY | {"broker_address": "smoke://street:1"},
            "no installed binder supports broker_address 'smoke",
        ),
    ],
)
def test_a_wrong_description_changes_nothing(
    enrolment: Enrolment, entry: Mapping[str, Any] | None, message: str
) -> None:
    code = enrolment.invite("street").code
    with pytest.raises(InvalidInput, match=message) as caught:
        enrolment.join(request(code, entry))
    assert "plain" not in str(caught.value)
    assert "street" not in enrolment.inventory.sites
    assert enrolment.join(request(code, ENTRY)).site.name == "street"  # the code was not used


def test_a_site_claims_no_address_of_jobs(store: Store, clock: Clock) -> None:
    used = {"sc://street:15002"}
    enrolment = enrolment_on(store, clock, taken=lambda: used)
    code = enrolment.invite("street").code
    with pytest.raises(InvalidInput, match=r"site 'street': jobs use sc://street:15002 already"):
        enrolment.join(request(code, ENTRY))
    used.clear()
    enrolment.join(request(code, ENTRY))
    used.add("sc://street:15002")  # of jobs at the site by now
    assert enrolment.join(request(enrolment.invite("street").code, ENTRY)).site.name == "street"


def test_a_site_that_joins_again_has_the_addresses_of_its_jobs(store: Store, clock: Clock) -> None:
    used = {"sc://street:15002": ["job 'clean'"]}
    changed: list[Collection[str]] = []
    enrolment = enrolment_on(
        store,
        clock,
        jobs_at=lambda asked: [job for each in asked for job in used.get(each, [])],
        on_changed=[changed.append],
    )
    enrolment.join(request(enrolment.invite("street").code, ENTRY))
    other, code = ENTRY | {"spe_address": "sc://other:15002"}, enrolment.invite("street").code
    with pytest.raises(InvalidInput, match=r"sc://street:15002 is used by job 'clean' .expected it"):
        enrolment.join(request(code, other))
    assert "sc://street:15002" in enrolment.inventory.addresses_at("street")
    used.clear()
    assert enrolment.join(request(code, other)).site.name == "street"
    assert {"sc://street:15002", "sc://other:15002"} <= set(changed[-1])


def test_no_job_comes_to_the_addresses_of_a_site_while_it_joins(store: Store, clock: Clock) -> None:
    frozen: list[bool] = []
    asked: list[bool] = []

    @contextmanager
    def freeze() -> Iterator[None]:
        frozen.append(True)
        yield
        frozen.pop()

    def none_at(*_: object) -> list[str]:
        asked.append(bool(frozen))
        return []

    enrolment = enrolment_on(store, clock, frozen=freeze, taken=lambda: frozenset(none_at()), jobs_at=none_at)
    joined(enrolment)
    other = ENTRY | {"spe_address": "sc://other:15002"}
    enrolment.join(request(enrolment.invite("street").code, other))
    assert asked == [True, True, True]


def test_what_a_site_says_of_itself_is_bounded(enrolment: Enrolment) -> None:
    code = enrolment.invite("street").code
    for machine in ("m" * 101, "m\x1b[2J"):
        odd = JoinRequest(protocol=PROTOCOL, version="1", code=code, machine=machine, entry=ENTRY)
        with pytest.raises(InvalidInput, match=r"machine is not valid"):
            enrolment.join(odd)


def test_a_site_of_another_protocol_is_named(enrolment: Enrolment) -> None:
    with pytest.raises(InvalidInput, match=f"speaks protocol 7 .expected {PROTOCOL}"):
        enrolment.join(request(enrolment.invite("street").code, ENTRY, protocol=7))


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ("direct", "site 'direct' is reached directly .write 'agent: true'"),
        ("far", "'far' is the name of a broker"),
        ("../a", "is not a name"),
        ("any", "reserved"),
    ],
)
def test_a_site_that_cannot_have_an_agent_gets_no_code(
    enrolment: Enrolment, store: Store, site: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        enrolment.invite(site)
    assert store.join_codes() == []


def test_a_revoked_token_is_refused_permanently(enrolment: Enrolment, store: Store, clock: Clock) -> None:
    first = joined(enrolment)
    code = enrolment.invite("street").code
    enrolment.revoke("street", "anna")
    assert enrolment.site_of(first.token.encode()) is None
    with pytest.raises(InvalidInput, match=r"was revoked"):
        enrolment.join(request(code, ENTRY))
    assert "street" in enrolment.inventory.sites
    (event,) = [each for each in store.events() if each.kind == EventKind.REVOKED]
    assert event.author == "anna"
    second = enrolment.join(request(enrolment.invite("street").code))  # its entry is known
    for each in (enrolment, enrolment_on(store, clock)):
        assert each.site_of(first.token.encode()) is None
        assert each.site_of(second.token.encode()) == "street"


def test_a_site_that_joined_is_removed_and_may_join_again(
    enrolment: Enrolment, store: Store, clock: Clock
) -> None:
    first, code = joined(enrolment), enrolment.invite("street").code
    told: list[str] = []
    enrolment.on_changed.append(told.extend)
    enrolment.remove("street", "anna")
    assert set(told) == {"sc://street:15002", "tcp://street:1883"}
    for each in (enrolment, enrolment_on(store, clock)):
        assert each.inventory.sites.keys() == INVENTORY.sites.keys()
        assert each.inventory.site_of_engine("sc://street:15002") is None
        assert each.site_of(first.token.encode()) is None
    with pytest.raises(InvalidInput, match=r"was revoked"):
        enrolment.join(request(code, ENTRY))
    (event,) = [each for each in store.events() if each.kind == EventKind.REMOVED]
    assert (event.author, event.message) == ("anna", "site 'street' was removed from the inventory")
    with pytest.raises(InvalidInput, match=r"give its servers: --engine and --broker"):
        enrolment.join(request(enrolment.invite("street").code))  # nothing of it is known
    again = joined(enrolment)
    assert enrolment.site_of(again.token.encode()) == "street"
    assert enrolment.site_of(first.token.encode()) is None


def test_a_site_that_is_used_or_did_not_join_is_not_removed(store: Store, clock: Clock) -> None:
    asked: list[set[str]] = []
    jobs = [f"job-{number:02}" for number in range(12)]

    def jobs_at(addresses: Collection[str]) -> list[str]:
        asked.append(set(addresses))
        return jobs

    enrolment = enrolment_on(store, clock, jobs_at=jobs_at)
    token = joined(enrolment).token
    with pytest.raises(Conflict, match=r"'street' is used by job-00, .*job-09 and 2 more .expected no job"):
        enrolment.remove("street")
    assert asked == [{"sc://street:15002", "tcp://street:1883"}]
    for site, kind, message in (
        ("known", InvalidInput, "site 'known' is in the server's own inventory"),
        ("far", NotFound, "there is no site 'far' that joined"),
        ("stret", NotFound, "there is no site 'stret' that joined.*'street'"),
    ):
        with pytest.raises(kind, match=message):
            enrolment.remove(site)
    assert enrolment.site_of(token.encode()) == "street"
    assert EventKind.REMOVED not in kinds(store)
    jobs.clear()
    enrolment.remove("street")
    assert "street" not in enrolment.inventory.sites


def test_a_token_is_valid_at_any_moment_while_the_record_of_its_site_is_written(
    enrolment: Enrolment,
) -> None:
    token = joined(enrolment).token.encode()
    seen: list[str | None] = []

    class Watched(dict[str, str]):
        """The sites by their tokens, of which another thread asks for one after each change."""

        def pop(self, key: str, *default: Any) -> Any:
            found = super().pop(key, *default)
            seen.append(enrolment.site_of(token))
            return found

        def __setitem__(self, key: str, site: str) -> None:
            super().__setitem__(key, site)
            seen.append(enrolment.site_of(token))

    enrolment._sites = Watched(enrolment._sites)
    enrolment.note([Hello(protocol=1, version="2", site="street", engines=(), broker="")], 1.0)
    assert set(seen) == {"street"}
    enrolment.revoke("street")
    assert set(seen[1:]) == {None}
    assert enrolment.site_of(token) is None


def test_a_token_of_the_file_is_revoked_as_well(store: Store, clock: Clock, tmp_path: Path) -> None:
    add_owner(tmp_path / "tokens", Owner("known", Role.READ, digest(b"of the file")))
    tokens = SiteTokens(TokenFile(tmp_path / "tokens"))
    enrolment = enrolment_on(store, clock, listed=tokens)
    assert enrolment.site_of(b"of the file") == "known"
    enrolment.revoke("known")
    for each in (enrolment, enrolment_on(store, clock, listed=tokens)):
        assert each.site_of(b"of the file") is None


def test_the_mark_changes_when_a_token_may_have_become_invalid(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    for name in ("known", "other"):
        add_owner(tmp_path / "tokens", Owner(name, Role.READ, digest(name.encode())))
    enrolment = enrolment_on(store, clock, listed=SiteTokens(TokenFile(tmp_path / "tokens")))
    marks = [enrolment.mark()]
    assert enrolment.mark() == marks[0]
    assert enrolment.site_of(b"other") == "other"
    remove_owner(tmp_path / "tokens", "other")
    marks.append(enrolment.mark())
    assert enrolment.site_of(b"other") is None
    enrolment.revoke("known")
    marks.append(enrolment.mark())
    joined(enrolment)
    marks.append(enrolment.mark())
    enrolment.revoke("street")
    marks.append(enrolment.mark())
    assert len(set(marks)) == len(marks)


def test_a_site_without_an_agent_cannot_be_revoked(enrolment: Enrolment) -> None:
    with pytest.raises(NotFound, match=r"site 'knwon' has no agent .did you mean 'known'"):
        enrolment.revoke("knwon")
    with pytest.raises(NotFound, match=r"site 'direct' has no agent"):
        enrolment.revoke("direct")


def test_a_site_that_contradicts_a_changed_inventory_is_named(
    enrolment: Enrolment, store: Store, clock: Clock
) -> None:
    joined(enrolment)
    changed = Inventory({"B": one_site("B", "sc://street:15002", "tcp://b:1883")})
    with pytest.raises(InvalidInput, match=r"site 'street': sc://street:15002 is reached through its agent"):
        enrolment_on(store, clock, changed)


# --- contact


@pytest.fixture(name="wires")
def wires_fixture() -> Wires:
    return Wires()


@pytest.fixture(name="agents")
def agents_fixture(enrolment: Enrolment, wires: Wires) -> Agents:
    return Agents(enrolment, wires)


def test_an_agent_that_is_away_and_back_is_an_event(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    wires.connect("known", clock.now)
    agents.look()
    del wires.there["known"]
    lost = clock.now
    agents.look()
    clock.now += GRACE - 1
    agents.look()
    assert kinds(store) == []  # an uplink may break for moments
    clock.now += 1
    for _ in range(2):
        agents.look()
    assert kinds(store) == [EventKind.AGENT_AWAY]
    assert agents.of_site("known") == {
        "connected": False,
        "since": lost,
        "version": "7",
        "machine": "m1",
        "revoked": False,
        "restarts": 0,
    }
    wires.connect("known", clock.now)
    for _ in range(2):
        agents.look()
    assert kinds(store) == [EventKind.AGENT_AWAY, EventKind.AGENT_BACK]


def test_a_clock_that_is_set_neither_makes_nor_delays_the_event_of_an_agent_that_is_away(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    steady = [0.0]
    agents.steady = lambda: steady[0]
    wires.connect("known", clock.now)
    agents.look()
    del wires.there["known"]
    agents.look()
    clock.now += 2 * GRACE
    agents.look()
    assert kinds(store) == []
    clock.now -= 3600.0
    steady[0] += GRACE
    agents.look()
    assert kinds(store) == [EventKind.AGENT_AWAY]


def test_a_break_of_moments_is_no_event(agents: Agents, wires: Wires, clock: Clock, store: Store) -> None:
    for _ in range(5):
        wires.connect("known", clock.now)
        agents.look()
        del wires.there["known"]
        agents.look()
        clock.now += GRACE - 1
    assert kinds(store) == []


def test_an_agent_that_never_came_is_no_event(agents: Agents, clock: Clock, store: Store) -> None:
    agents.look()
    clock.now += 2 * GRACE
    agents.look()
    assert kinds(store) == []
    assert agents.of_site("known") == {
        "connected": False,
        "since": None,
        "version": "",
        "machine": "",
        "revoked": False,
        "restarts": 0,
    }
    assert agents.of_site("direct") is None
    assert agents.of_site("nowhere") is None


def test_the_last_contact_outlives_a_restart(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    wires.connect("known", clock.now)
    agents.look()
    clock.now += 100
    agents.close()
    seen = clock.now
    clock.now += 100
    later = Agents(enrolment_on(store, clock), Wires())
    found = later.of_site("known")
    assert found is not None
    assert (found["connected"], found["since"], found["machine"]) == (False, seen, "m1")
    later.look()
    clock.now += GRACE
    later.look()
    assert kinds(store) == [EventKind.AGENT_AWAY]


def restarted(number: int, *, started: bool = True) -> JournalEntry:
    return JournalEntry(
        number=number, at=0.0, job="clean", attempt=3, started=started, text=f"start {number}"
    )


def test_starts_of_an_agent_become_events_once(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    wires.connect("known", clock.now)
    wires.journals["known"] = [restarted(1), restarted(2, started=False)]
    for _ in range(3):
        agents.look()
    assert sorted(kinds(store)) == [EventKind.NOT_RESTARTED, EventKind.RESTARTED]
    where = "at site 'known', 1970-01-01 00:00:00Z by its clock"
    message = f"job 'clean', attempt 3: was started again {where}: start 1"
    assert message in [each.message for each in store.events()]
    wires.journals["known"].append(restarted(3))
    later = Agents(enrolment_on(store, clock), wires)
    wires.silent.add("known")
    later.look()
    assert len(kinds(store)) == 2
    wires.silent.clear()
    for _ in range(2):
        later.look()
    assert kinds(store).count(EventKind.RESTARTED) == 2
    found = later.of_site("known")
    assert found is not None
    assert found["restarts"] == 2


def test_an_agent_causes_a_bounded_number_of_events(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    """Else a hostile one pushes the events of all others out of the log within a minute."""
    wires.connect("known", clock.now)
    wires.journals["known"] = []
    for begin in range(1, 2 * MOST, 50):
        wires.journals["known"] += [restarted(begin + each) for each in range(50)]
        agents.look()
    assert [each.kind for each in store.events(3 * MOST)] == [EventKind.RESTARTED] * MOST
    clock.now += 3600
    wires.journals["known"].append(restarted(2 * MOST + 1))
    agents.look()
    left_out, last = [each.message for each in store.events(3 * MOST)][MOST:]
    text = "200 starts that its agent reported have no event (expected at most 200 an hour)"
    assert left_out == f"site 'known': {text}"
    assert last.endswith(f"start {2 * MOST + 1}")
    found = agents.of_site("known")
    assert found is not None
    assert found["restarts"] == 2 * MOST + 1


def test_the_entries_after_a_restored_journal_are_read(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    """A site that is restored from an image has numbers again that were read before."""
    wires.connect("known", clock.now)
    wires.journals["known"] = [restarted(1), restarted(2), restarted(3)]
    agents.look()
    wires.journals["known"] = [restarted(1)]
    for _ in range(2):
        agents.look()
    assert kinds(store)[3:] == [EventKind.IGNORED]
    assert "ends with entry 1, and was read up to entry 3" in [each.message for each in store.events()][3]
    wires.journals["known"].append(restarted(2))
    agents.look()
    assert kinds(store)[4:] == [EventKind.RESTARTED]


def test_a_mark_that_is_older_than_the_entries_repeats_none(
    agents: Agents, wires: Wires, clock: Clock, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent sends its mark with its next look, and may have added entries by the time it is read."""
    wires.connect("known", clock.now)
    wires.journals["known"] = [restarted(1), restarted(2)]
    for mark in ("j:1", "j:1", "j:2"):
        monkeypatch.setattr(wires, "journal", lambda _, mark=mark: mark)
        agents.look()
    assert kinds(store) == [EventKind.RESTARTED] * 2
    found = agents.of_site("known")
    assert found is not None
    assert found["restarts"] == 2


def test_other_machines_cause_a_bounded_number_of_events(agents: Agents, clock: Clock, store: Store) -> None:
    for number in range(MOST_SECOND + 5):
        agents.note_second("known", "m1", f"n{number}")
    agents.look()
    assert kinds(store) == [EventKind.SECOND_AGENT] * MOST_SECOND
    agents.close()
    text = "5 other machines as its agent have no event (expected at most 10 an hour)"
    assert [each.message for each in store.events()][MOST_SECOND:] == [f"site 'known': {text}"]


def test_a_second_machine_is_an_event_once(agents: Agents, store: Store) -> None:
    for _ in range(3):
        agents.note_second("known", "m1", "m2")
        agents.look()
    (event,) = store.events()
    assert event.kind == EventKind.SECOND_AGENT
    assert "machine m2 was refused" in event.message
    assert "machine m1 is connected" in event.message
    agents.note_second("known", "m1", "m3")
    agents.look()
    assert len(store.events()) == 2
    agents.note_second("known", "m1", "m1")
    agents.look()
    assert "a second agent with the machine id 'm1' was refused" in store.events()[-1].message


def test_another_machine_in_place_of_one_that_is_away_is_an_event(
    agents: Agents, wires: Wires, clock: Clock, store: Store
) -> None:
    """The holder of a copied disk, or of its token, may wait until the site has lost its contact."""
    wires.connect("known", clock.now, machine="a-1")
    agents.look()
    for machine in ("a-1-2", "a", "a-1"):  # other adapters of one computer
        wires.connect("known", clock.now, machine=machine)
        agents.look()
    assert kinds(store) == []
    wires.connect("known", clock.now, machine="a-9")
    for _ in range(2):
        agents.look()
    (event,) = store.events()
    assert event.kind == EventKind.SECOND_AGENT
    assert "its agent runs on machine a-9 now, and not on a-1 (if it was not moved" in event.message
    later = Agents(enrolment_on(store, clock), wires)
    later.look()
    assert len(store.events()) == 1
    wires.connect("known", clock.now, machine="a-1")
    later.look()
    assert len(store.events()) == 2


def test_a_revocation_ends_the_connection(agents: Agents, wires: Wires) -> None:
    agents.revoke("known")
    assert wires.checks == 1
    found = agents.of_site("known")
    assert found is not None
    assert not found["revoked"]  # there was no token


def test_a_revoked_agent_is_shown(agents: Agents, enrolment: Enrolment) -> None:
    joined(enrolment)
    agents.revoke("street")
    found = agents.of_site("street")
    assert found is not None
    assert found["revoked"]


def test_a_server_without_agents_makes_no_code(enrolment: Enrolment) -> None:
    with pytest.raises(Conflict, match=r"accepts no agents .start it with: speck serve --agents"):
        Agents(enrolment).invite("known")
