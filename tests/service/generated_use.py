# mypy: disable-error-code="import-not-found"
"""Uses a client that openapi-python-client made: `python generated_use.py URL SECRET`, with its package on the path.

It runs in the environment of the generator, which need not have CAUSE; it prints what it did as JSON.
"""

import json
import sys
import time

from generated import AuthenticatedClient, models
from generated.api.device import close_round, get_history, get_round, get_status, list_shards
from generated.api.evidence import get_log, get_receipts_of_request, list_receipts, list_requests
from generated.api.predictions import predict
from generated.api.tokens import create_token, list_tokens, revoke_token
from generated.api.users import erase, erase_several, get_user, plan_erasure, upload_samples

FEATURES = 6
TRAINED_S = 60.0


def row(at: int, label: int) -> "models.LabelledSamplesSamplesItem":
    values = [float((at * 7 + place * 3) % 5 + 4 * label) for place in range(FEATURES)]
    return models.LabelledSamplesSamplesItem.from_dict({"x": values, "y": label})


def main(url: str, secret: str) -> None:
    client = AuthenticatedClient(base_url=url, token=secret, raise_on_unexpected_status=True)
    for user in ("ann", "bob", "cyd"):
        body = models.LabelledSamples(samples=[row(at, at % 2) for at in range(8)])
        upload = upload_samples.sync(user, client=client, body=body, idempotency_key=f"first of {user}")
        assert isinstance(upload, models.Upload), upload
    closed = close_round.sync(client=client, body=models.CloseRound())
    assert isinstance(closed, models.Round), closed
    end = time.monotonic() + TRAINED_S
    while get_round.sync(closed.round_, client=client).state != "trained":
        assert time.monotonic() < end, f"the round is not trained after {TRAINED_S:g} s"
        time.sleep(0.1)
    labels = predict.sync(client=client, body=models.Samples(inputs=[[1.0] * FEATURES, [6.0] * FEATURES])).labels
    plan = plan_erasure.sync("ann", client=client, body=models.Erasure(rounds=[closed.round_], count=2))
    request = erase.sync("ann", client=client, body=models.Erasure(rounds=[closed.round_], count=2))
    several = erase_several.sync(
        client=client,
        idempotency_key="all of them",
        body=models.Erasures(erasures=[models.UserErasure(user="bob"), models.UserErasure(user="nobody")]),
    )
    refused = erase.sync("ann", client=client, body=models.Erasure(rounds=[77]))
    assert isinstance(refused, models.Problem), refused
    wanted = models.CreateToken(scopes=[models.CreateTokenScopesItem("predict")], note="generated")
    token = create_token.sync(client=client, body=wanted)
    gone = revoke_token.sync(token.id, client=client)
    listed = list_requests.sync(client=client, limit=2, since="2020-01-01")
    receipts = list_receipts.sync(client=client, id=request.id[:8])
    print(
        json.dumps(
            {
                "labels": labels,
                "planned": plan.samples,
                "erased": [request.samples, *(each.samples for each in several.requests)],
                "held": [get_user.sync(user, client=client).samples for user in ("ann", "bob", "cyd")],
                "refused": refused.type_,
                "token": [token.secret.startswith("cause_"), gone.valid],
                "tokens": len(list_tokens.sync(client=client).items),
                "listed": [len(listed.items), listed.next_ is not None],
                "receipts": [each.request == request.id for each in receipts.items],
                "bundles": len(get_receipts_of_request.sync(request.id, client=client).receipts),
                "log": get_log.sync(client=client).size,
                "shards": len(list_shards.sync(client=client).shards),
                "name": get_status.sync(client=client).name,
                "history": len(get_history.sync(client=client).erasures),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
