"""The heart of the dashboard: upload, learn, erase, watch, verify, in a real browser on a real service."""

import numpy as np
import pytest

from tests.browser.digits import ROUNDS, Device, network, part

WATCH = """
window.seen = [];
const look = () => {
  const now = document.querySelector('#story [aria-current]');
  const names = (css) => Array.from(document.querySelectorAll(css), each => each.dataset.segment);
  const state = {
    step: now ? now.querySelector('.what').firstChild.textContent : '',
    losing: names('.segment.losing'), tainted: names('.segment.tainted'), training: names('.segment.training'),
    shares: Array.from(document.querySelectorAll('.segment.training'), each => Number(each.dataset.share)),
    heads: Object.fromEntries(Array.from(document.querySelectorAll('[data-head]'),
      each => [each.dataset.head, each.dataset.at])),
    progress: document.getElementById('training').hidden ? '' : document.getElementById('training-text').textContent,
  };
  const last = window.seen.at(-1);
  if (JSON.stringify(last) !== JSON.stringify(state)) window.seen.push(state);
};
new MutationObserver(look).observe(document.getElementById('board'),
  {subtree: true, childList: true, attributes: true, characterData: true});
"""


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    with Device(tmp_path_factory.mktemp("device") / "home", network(), ROUNDS) as device:
        yield device


def name(segment) -> str:
    return ".".join(map(str, segment))


def agrees(page, device) -> bool:
    """Whether the picture shows what the service holds."""
    shards = device.api.shards()
    held = {
        name(each["segment"]): (str(each["samples"]), str(each["stored"]).lower())
        for shard in shards
        for each in shard["segments"]
    }
    shown = {key: (each["samples"], each["stored"]) for key, each in page.segments().items()}
    heads = {str(shard["shard"]): name(shard["head"] or ()) for shard in shards}
    return shown == held and page.heads() == heads


def choose(page, user: str, *rounds: int) -> None:
    """Look a user up and choose rounds; the preview is there then."""
    page.type("erase-user", user + "\n")
    page.until(lambda: page.shown("erase-choice") and page.find("#erase-confirm").is_enabled())
    for each in rounds:
        page.click(f"input[name=round][value='{each}']")
        page.until(lambda: page.find("#erase-confirm").is_enabled())


def test_from_upload_to_a_verified_receipt(page, device, tmp_path):
    page.sign_in(device.url, device.secret)
    number = device.api.status()["round"] + 1
    for at, user in enumerate(("gus", "hal", "ida")):
        x, y = device.next(40)
        np.savez(tmp_path / f"{user}.npz", x=x, y=y)
        page.unfold("upload-details")
        page.type("upload-user", user)
        page.find("#upload-file").send_keys(str(tmp_path / f"{user}.npz"))
        page.click("#upload-form button[type=submit]")
        page.log_shows(f"{40 * at + 40} wait for the next round.")
    page.click("#close-round")
    page.log_shows(f"Round {number} is closed: 120 samples of 3 users.", "All shards are up to date.")
    device.learn({"gus": 30, "hal": 20})
    page.log_shows(f"Round {number + 1} is closed", "All shards are up to date.")
    page.until(lambda: agrees(page, device))

    expected = device.plan("gus", rounds=[number])
    choose(page, "gus", number)
    assert page.find("#erase-confirm").text == "Erase 40 samples"
    page.click("#erase-confirm")
    page.log_shows("40 samples deleted.", f"{len(expected['destroyed'])} tainted sub-model")
    page.until(lambda: "in effect, repair waits" in page.text("repairs"))
    page.until(lambda: agrees(page, device))
    assert "due in 30 days" in page.text("repairs")
    assert device.api.user("gus")["samples"] == 30
    page.click("#repair-now")
    page.log_shows("Replay of", "is repaired and its receipt is signed.", "The replay is done: ")
    page.until(lambda: len(page.every("#story li.done")) == 5)
    page.until(lambda: agrees(page, device))
    assert not any(shard["behind"] for shard in device.api.shards())
    page.until(lambda: "in effect, repair waits" not in page.text("repairs"))

    page.until(lambda: page.every("#receipts tbody tr"))
    newest = page.find("#receipts tbody tr td").text
    page.click(f"[data-focus='verify {newest}']")
    page.log_shows(f"Receipt {newest}: identical: ")
    page.until(lambda: page.every("#receipts .verdict.holds"))
    assert "mismatch" not in page.text("main")


def test_the_preview_is_the_plan_of_the_service_and_changes_nothing(page, device):
    before = device.api.shards()
    page.sign_in(device.url, device.secret)
    for rounds in ((1,), (2,), (2, 3)):
        expected = device.plan("bob", rounds=list(rounds))
        choose(page, "bob", *rounds)
        segments = page.segments()
        marked = {kind: {key for key, each in segments.items() if kind in each["kind"].split()} for kind in
                  ("would-go", "would-replay", "would-restart")}  # fmt: skip
        assert marked["would-go"] == {name(each) for each in expected["destroyed"]} != set()
        touched = {name(key) for shard in expected["shards"] for key in (*shard["replay"], shard["first"])}
        assert marked["would-replay"] == touched
        assert marked["would-restart"] == {name(each["restart"]) for each in expected["shards"] if each["restart"]}
        plan_text = page.text("erase-plan")
        assert f"Deletes {expected['samples']} samples." in plan_text
        for shard in expected["shards"]:
            assert f"Shard {shard['shard']} " in plan_text
            again = f": {shard['rsn']} samples again" if shard["replay"] else "has nothing left to replay"
            assert again in plan_text
    choose(page, "bob", 1)
    page.type("erase-count", "7")
    page.until(lambda: page.find("#erase-confirm").text == "Erase 7 samples")
    page.click("#erase-cancel")
    assert not page.shown("erase-choice")
    assert not any("would" in each["kind"] for each in page.segments().values())
    assert device.api.shards() == before


def test_each_step_of_a_forget_is_seen_before_the_next(page, device):
    expected = device.plan("bob", rounds=[2])
    (shard,) = expected["shards"]
    page.sign_in(device.url, device.secret)
    page.run(WATCH)
    choose(page, "bob", 2)
    page.click("#erase-confirm")
    page.until(lambda: page.shown("repair-now"))
    page.click("#repair-now")
    page.log_shows("is repaired", "The replay is done: ")
    page.until(lambda: agrees(page, device))
    seen = page.run("return window.seen")
    steps = list(dict.fromkeys(each["step"] for each in seen if each["step"]))
    assert steps == ["Samples deleted", "Tainted sub-models destroyed", "Fall back to clean sub-models", "Replay"]
    at = {step: [each for each in seen if each["step"] == step] for step in steps}
    first, key = name(shard["first"]), str(shard["shard"])
    assert {each for state in at["Samples deleted"] for each in state["losing"]} == {first}
    assert not any(state["tainted"] for state in at["Samples deleted"])
    tainted = {each for state in at["Tainted sub-models destroyed"] for each in state["tainted"]}
    assert tainted == {name(each) for each in expected["destroyed"]}
    fallen = at["Fall back to clean sub-models"][-1]["heads"]
    assert fallen[key] == (name(shard["restart"]) if shard["restart"] else "")
    filled = [each for state in at["Replay"] for each in state["training"]]
    assert set(filled) == {name(each) for each in shard["replay"]}, "segments fill as they are trained again"
    assert any(0 < share < 1 for state in at["Replay"] for share in state["shares"]), "epoch by epoch"
    assert any("epoch" in state["progress"] for state in at["Replay"])
    assert seen[-1]["heads"][key] == name(shard["replay"][-1])


def test_an_erasure_needs_no_pointer(page, device):
    from selenium.webdriver.common.keys import Keys

    held = device.api.user("dan")["samples"]
    page.sign_in(device.url, device.secret)
    page.run("document.getElementById('main').focus()")

    def tab_to(id_: str) -> None:
        for _ in range(30):
            if page.focused() == id_:
                return
            page.keys(Keys.TAB)
        pytest.fail(f"the Tab key never comes to {id_}")

    tab_to("erase-user")
    page.keys("dan", Keys.ENTER)
    page.until(lambda: page.shown("erase-choice") and page.find("#erase-confirm").is_enabled())
    page.keys(Keys.TAB, Keys.SPACE)  # from "Everything" to the first round, and choose it
    page.until(lambda: page.find("#erase-confirm").text == "Erase 50 samples")
    tab_to("erase-confirm")
    page.keys(Keys.ENTER)
    page.log_shows("50 samples deleted.")
    assert device.api.user("dan")["samples"] == held - 50
    page.until(lambda: page.focused() == "erase-user")
    page.until(lambda: page.shown("repair-now"))
    tab_to("repair-now")
    page.keys(Keys.ENTER)
    page.log_shows("The replay is done: ")
    device.settled()


def test_a_name_is_only_ever_text(page, device):
    evil = "<img src=x onerror=window.hit=1>"
    device.api.upload(evil, *part(1000, 5))
    page.sign_in(device.url, device.secret)
    page.type("erase-user", evil + "\n")
    page.until(lambda: page.shown("erase-choice"))
    assert f"Stored for {evil}: 0 samples, and 5 samples that wait" in page.text("erase-held")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    page.click("#erase-confirm")
    page.log_shows("5 samples deleted.", "No shard is touched.")
    assert page.every("img") == []
    assert page.run("return window.hit === undefined")


def test_an_erasure_of_nobody_is_told_like_any_other(page, device):
    page.sign_in(device.url, device.secret)
    choose(page, "nobody")
    assert "No samples of this user are stored" in page.text("erase-plan")
    page.click("#erase-confirm")
    page.log_shows("Nothing had been learned from its samples.")


def test_progress_is_seen_while_a_round_trains(page, device):
    page.sign_in(device.url, device.secret)
    page.run(WATCH)
    device.learn(ROUNDS[0])
    page.log_shows("is closed", "All shards are up to date.")
    page.until(lambda: agrees(page, device))
    seen = page.run("return window.seen")
    rounds = {key.split(".")[1] for each in seen for key in each["training"]}
    assert rounds == {str(device.api.status()["round"])}
    assert {0.33, 0.67} <= {share for each in seen for share in each["shares"]}
    assert any("epoch 3 of 3" in each["progress"] for each in seen)
