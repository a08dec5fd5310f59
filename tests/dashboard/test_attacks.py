"""Each attack that `mmfl.dashboard.access` names, and attacks by run directories."""

from __future__ import annotations

import json
import os
import re
import shutil
from html.parser import HTMLParser

import pytest

import mmfl
from mmfl.dashboard import Access
from mmfl.errors import InputError
from support.asking import HOST, TOKEN, Visitor, text_of
from support.experiments import write_small
from support.rewriting import edited

NASTY = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8765", "127.0.0.1.evil.example:8765", "localhost.evil"),
        *("192.168.0.7:8765", "127.0.0.1:8765@evil.example", "", "a b", "[::2]:8765", "127.0.0.2"),
    ],
)
def test_dns_rebinding_requests_that_name_another_host_are_refused(visitor, host):
    answer = visitor.get("/", host=host)
    assert answer.status_code == 421
    assert "runs" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9", "LOCALHOST", "[::1]:8765"])
def test_this_machine_has_several_names(visitor, host):
    assert visitor.get("/", host=host).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "x"])
@pytest.mark.parametrize("path", ["/", "/events/list", "/files/dashboard.js"])
def test_pages_of_other_origins_cannot_read(visitor, origin, path):
    assert visitor.get(path, origin=origin).status_code == 403


def test_a_form_of_another_site_is_refused_even_with_the_cookie(visitor):
    visitor.unlock()
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": HOST, "sec_fetch_site": "cross-site"},
        {"origin": HOST, "sec_fetch_site": "same-site"},
    ):
        assert visitor.post("/unlock", {"token": TOKEN}, **headers).status_code == 403
    assert visitor.ask("POST", "/unlock", {}, {"token": TOKEN}).status_code == 403


def test_every_answer_has_a_strict_policy(visitor):
    key = visitor.find("done")
    for path in ("/", f"/runs/{key}", f"/compare?id={key}", "/none", "/files/none", "/?token=x"):
        policy = visitor.get(path).headers["content-security-policy"]
        parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
        assert parts["default-src"] == "'none'"
        assert parts["script-src"] == parts["style-src"] == "'self'"
        assert parts["frame-ancestors"] == parts["base-uri"] == "'none'"
    refused = visitor.get("/", host="evil.example").headers
    assert refused["x-content-type-options"] == "nosniff"


class Scripts(HTMLParser):
    """Finds what would run, or be loaded, on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("iframe", "object", "embed", "base") or (
            tag == "img" and given["src"][0] == "x"
        ):
            self.found.append(tag)
        if tag == "script" and given.get("type") != "application/json":
            self.found += [] if (given.get("src") or "").startswith("/files/") else [tag]
        self.found += [
            f"{tag} {name}" for name in given if name.startswith("on") or name == "style"
        ]
        self.found += [
            v for n, v in attrs if n in ("src", "href") and re.match(r"\w+:|//", v or "")
        ]


def test_names_and_what_clients_sent_are_escaped(tmp_path):
    tasks = write_small("a", "b", top="rounds = 2")
    faults = '[faults]\n[[faults.clients]]\nids = [0, 1]\ndoes = "nan"\n'
    folder = tmp_path / "runs" / NASTY.replace("/", "")
    mmfl.run(mmfl.Experiment.from_toml(tasks + faults), folder)
    with edited(folder) as database:
        database.execute("UPDATE failure SET detail = ?, reason = ?", (NASTY, NASTY))
        name = f"</script><script>alert(2)</script>{NASTY}"  # mmfl permits none like it
        database.execute("UPDATE task SET name = ? WHERE number = 1", (name,))
    visitor = Visitor(tmp_path / "runs")
    (key,) = visitor.dashboard.library.snapshot.runs
    for path in ("/", f"/runs/{key}", f"/?q={NASTY}"):
        page = visitor.get(path).text
        assert "&lt;img" in page
        assert "<img src=x" not in page
        scripts = Scripts()
        scripts.feed(page)
        assert [one for one in scripts.found if one != "data:,"] == [], path
    data = re.search(r'id="content">(.*?)</script>', visitor.get(f"/runs/{key}").text)[1]
    assert json.loads(data)["rounds"] == [1, 2]


@pytest.mark.parametrize(
    "path",
    [
        *("/files/../../../etc/passwd", "/files/..%2f..%2fpages.py", "/files/%2e%2e/app.py"),
        *("/files/run.html.j2", "/files//etc/passwd", "/runs/..%2f..%2fetc", "/runs/etc/passwd"),
        *("/runs/%00", "/compare?id=../../etc", "/events/runs/../../x", "/events/x", "/runs/done"),
    ],
)
def test_what_a_browser_sends_never_becomes_a_path(visitor, path):
    answer = visitor.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "import " not in answer.text


def test_a_link_to_a_run_outside_is_listed_and_not_read(runs, tmp_path, made):
    secret = tmp_path / "secret"
    shutil.copytree(made / "done", secret)
    (runs / "link").symlink_to(secret)
    visitor = Visitor(runs)
    page = visitor.get(f"/runs/{visitor.find('link')}").text
    assert "it is a link to another folder" in text_of(page)
    assert mmfl.Run.load(secret).fingerprint not in page
    assert visitor.get(f"/compare?id={visitor.find('link')}").status_code == 400


@pytest.mark.parametrize("name", ["experiment.toml", "environment.json", "run.sqlite", "models"])
def test_a_link_in_a_run_is_not_followed(runs, tmp_path, name):
    (tmp_path / "secret").mkdir()
    moved = tmp_path / "secret" / name
    shutil.move(runs / "done" / name, moved)
    (runs / "done" / name).symlink_to(moved)
    visitor = Visitor(runs)
    page = text_of(visitor.get(f"/runs/{visitor.find('done')}").text)
    assert f"it holds a link, '{name}', which the dashboard does not follow" in page


def test_a_link_that_comes_later_is_not_followed_either(runs, tmp_path):
    visitor = Visitor(runs)
    key = visitor.find("done")
    shutil.move(runs / "done" / "experiment.toml", tmp_path / "secret")
    (runs / "done" / "experiment.toml").symlink_to(tmp_path / "secret")
    assert "which the dashboard does not follow" in text_of(visitor.get(f"/runs/{key}").text)
    answer = visitor.get(f"/compare?id={key}")
    assert answer.status_code == 400
    assert "follow" in text_of(answer.text)


def test_the_names_of_a_comparison_are_not_read_from_elsewhere(runs, tmp_path):
    (tmp_path / "secret").write_text(json.dumps({"variants": ["uni!form"]}))
    for name in ("comparison.json", "mmfl-compare.json"):
        (runs / "both" / name).unlink(missing_ok=True)
        (runs / "both" / name).symlink_to(tmp_path / "secret")
    assert "uni!form" not in Visitor(runs).get("/").text


def test_a_pipe_in_a_run_does_not_block_the_page(runs):
    for name in ("run.sqlite", "environment.json"):
        (runs / "done" / name).unlink()
        os.mkfifo(runs / "done" / name)
    visitor = Visitor(runs)
    assert visitor.get(f"/runs/{visitor.find('done')}").status_code == 200


def test_others_on_the_network_need_the_token_to_read(made):
    visitor = Visitor(made, address="0.0.0.0")
    for path in ("/", f"/runs/{visitor.find('done')}", "/events/list", "/none", "/compare"):
        answer = visitor.get(path, host="192.168.0.7:8765")
        assert answer.status_code == 401
        assert "done" not in answer.text
    assert visitor.get("/", host="evil.example").status_code == 421
    assert visitor.get("/?token=wrong", host="192.168.0.7").status_code == 403
    answer = visitor.get(f"/?token={TOKEN}", host="192.168.0.7:8765")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert TOKEN not in answer.headers["set-cookie"]
    assert visitor.get("/", host="192.168.0.7:8765").status_code == 200


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(visitor):
    cookie = visitor.get(f"/?token={TOKEN}").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("cookie", ["", "x", "a" * 64, "é"])
def test_a_made_up_cookie_is_worth_nothing(made, cookie):
    visitor = Visitor(made, address="0.0.0.0")
    answer = visitor.get("/", host="192.168.0.7", cookie=f"mmfl-8765={cookie}".encode())
    assert answer.status_code == 401


def test_a_token_leads_to_no_other_host(visitor):
    for path in (f"//evil.example/?token={TOKEN}", f"/\\evil.example?token={TOKEN}"):
        answer = visitor.get(f"{HOST}{path}")
        location = answer.headers.get("location", "/")
        assert re.match(r"/(?![/\\])", location)


@pytest.mark.parametrize("token", ["", "short", "ümläute sind nicht gut", "new\nlines are bad"])
def test_a_weak_token_is_refused(token):
    with pytest.raises(InputError, match="at least 12"):
        Access(token=token)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_do_nothing(visitor, method):
    assert visitor.ask(method, "/", {"origin": HOST}).status_code in (403, 405)


def test_a_form_that_is_too_long_is_not_read(visitor):
    assert visitor.post("/unlock", {"token": TOKEN, "x": "y" * (1 << 21)}).status_code == 403
