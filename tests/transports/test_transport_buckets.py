"""Which bucket a request belongs to: the model is in its body, the provider is its host, and the user may say otherwise."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_support import BODY, CHAT, MODEL, Flavour, Ledger

from llm_sched import ConfigError, Policy, install
from llm_sched.labels import provider_label
from llm_sched.transports.pacing import model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from strict_provider import StrictProvider

    from llm_sched import Scheduler


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"model": "gpt-4o", "messages": []}', "gpt-4o"),
        (b'{"messages": [{"model": "inner"}], "model": "org/name:tag"}', "org/name:tag"),
        ('{"model": "modèle"}'.encode(), "modèle"),
        (b"", ""),
        (b"{}", ""),
        (b'{"model": 4}', ""),
        (b'{"model": null}', ""),
        (b'["model"]', ""),
        (b'{"model": "half', ""),
        (b"\xff\xfe", ""),
        (b"--boundary\r\n", ""),
        (b"[" * 100_000, ""),
        (b'{"a":' * 100_000, ""),
    ],
)
def test_the_model_stands_in_the_body(body: bytes, model: str) -> None:
    """Or nowhere: what cannot be read names none."""
    assert model_of(body) == model


@given(st.binary())
def test_no_body_is_too_odd(body: bytes) -> None:
    """Reading the model never fails."""
    assert model_of(body) == "" or b"model" in body


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.text())
def test_whatever_stands_beside_the_model(others: dict[str, int | str], model: str) -> None:
    """It is found among any other keys."""
    assert model_of(json.dumps({**others, "model": model}).encode()) == model


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://API.OpenAI.com:443/v1/", "openai"),
        ("http://localhost:11434/v1", "localhost:11434"),
        ("http://LOCALHOST/v1", "localhost"),
        ("http://localhost:80", "localhost"),
        ("http://localhost:443", "localhost:443"),
        ("https://user:secret@proxy.example.com/v1", "proxy.example.com"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
        ("https://api.openai.com.evil.example", "api.openai.com.evil.example"),
    ],
)
def test_the_provider_is_its_host(url: str, label: str) -> None:
    """OpenAI's own by its name; in lower case, with the port unless that goes without saying, without secrets."""
    assert provider_label(url) == label


@pytest.mark.parametrize("url", ["", "localhost/v1", "http:///v1", "http://:80", "http://[::1/v1", "http://host:port"])
def test_a_url_without_a_host_is_an_error(url: str) -> None:
    """It names the URL."""
    with pytest.raises(ValueError, match="not a URL"):
        provider_label(url)


def host_of(provider: StrictProvider) -> str:
    """The label under which the provider's calls are expected."""
    return provider.base_url.removeprefix("http://").removesuffix("/v1")


def send(flavour: Flavour, provider: StrictProvider, transport: Any, **request: Any) -> int:
    """Post a request, and return the answer's status."""
    with flavour.client(transport) as client:
        status: int = client.post(provider.base_url + CHAT, **request).status_code
        return status


def test_a_request_is_paced_under_its_host_and_model(
    flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger
) -> None:
    """`host:port/model`; and when the answer is there, the slot is back."""
    assert send(flavour, provider, flavour.paced.PacedTransport(scheduler=scheduler), json=BODY) == 200
    assert ledger.buckets() == {f"{host_of(provider)}/{MODEL}"}
    assert (ledger.granted(), ledger.held()) == (1, 0)


def test_the_user_names_provider_and_model(
    flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger
) -> None:
    """Then neither host nor body are asked, and a request without a body is paced as well."""
    transport = flavour.paced.PacedTransport(provider="p", model="m", scheduler=scheduler)
    with flavour.client(transport) as client:
        client.post(provider.base_url + CHAT, json=BODY)
        client.get(provider.base_url + "/models")
    assert (ledger.buckets(), ledger.granted()) == ({"p/m"}, 2)


def test_the_policys_provider_label_beats_the_host(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """As everywhere; what the transport was given beats both."""
    scheduler = schedulers(provider="mine")
    send(flavour, provider, flavour.paced.PacedTransport(scheduler=scheduler), json=BODY)
    send(flavour, provider, flavour.paced.PacedTransport(provider="given", scheduler=scheduler), json=BODY)
    assert Ledger(scheduler).buckets() == {f"mine/{MODEL}", f"given/{MODEL}"}


def test_the_processs_policy_is_the_default(
    flavour: Flavour, provider: StrictProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is installed when a request is sent; the environment's overrides hold."""
    transport = flavour.paced.PacedTransport()
    monkeypatch.setenv("MAS_LLM_SCHEDULER_PROVIDER", "from-outside")
    install(Policy(state_path=tmp_path / "installed.json"))
    assert send(flavour, provider, transport, json=BODY) == 200
    from llm_sched.default import current  # noqa: PLC0415 - this test's alone

    assert Ledger(current()).buckets() == {f"from-outside/{MODEL}"}
    current().close()


def test_requests_without_a_model_pass_while_all_slots_are_taken(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """A list of models, and an uploaded form."""
    scheduler = schedulers(max_in_flight=1, keys=["user"])
    with scheduler.acquire(), flavour.client(flavour.paced.PacedTransport(scheduler=scheduler)) as client:
        assert client.get(provider.base_url + "/models").status_code == 200
        form = client.post(provider.base_url + "/files", files={"model": io.BytesIO(b"x" * 100_000)})
        assert form.status_code == 404
        assert Ledger(scheduler).granted() == 1


def test_a_body_of_unknown_kind_that_names_a_model_is_paced(
    flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger
) -> None:
    """Nobody has to say that it is JSON."""
    assert send(flavour, provider, flavour.paced.PacedTransport(scheduler=scheduler), content=json.dumps(BODY).encode()) == 200
    assert ledger.granted() == 1


def test_a_streamed_body_of_json_is_read_for_its_model_and_sent(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """The provider gets it all; any other streamed body is left alone."""
    got: list[bytes] = []

    def answer(request: Any) -> Any:
        got.append(request.read())
        return flavour.lib.Response(200)

    def parts() -> Iterator[bytes]:
        data = json.dumps(BODY).encode()
        yield data[:10]
        yield data[10:]

    transport = flavour.paced.PacedTransport(flavour.lib.MockTransport(answer), scheduler=scheduler)
    with flavour.client(transport) as client:
        client.post("http://host", content=parts(), headers={"Content-Type": "application/json"})
        assert ledger.granted() == 1
        client.post("http://host", content=parts(), headers={"Content-Type": "application/octet-stream"})
        assert ledger.granted() == 1
    assert [json.loads(body) for body in got] == [BODY, BODY]


def test_a_name_that_is_too_long_is_an_error_before_anything_is_sent(
    flavour: Flavour, provider: StrictProvider, scheduler: Scheduler
) -> None:
    """It says so."""
    with pytest.raises(ConfigError, match="too long"):
        send(flavour, provider, flavour.paced.PacedTransport(scheduler=scheduler), json={"model": "m" * 10_000})
    assert provider.stats().requests == 0
